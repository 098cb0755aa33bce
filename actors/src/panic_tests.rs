//! What faults inside one actor do to the others and to the clients: nobody waits for ever, a request's panic is its own, and a step
//! of a life that has ended is nobody's.

use crate::budget::Budget;
use crate::home::{End, Saying};
use crate::messages::RunStep;
use crate::model::Said;
use crate::request::Request;
use crate::scheduling::Scheduling;
use crate::{Answer, Ask, Event, Failure, Form, Home, Key, Opener, Options, Params, Prompt, Service};
use actix::{Context, Handler, Message};
use kv::{BlockId, Input, SeqId, Step, StepId, StepRow};
use metrics::WorkerCause;
use models::synthetic::text::write_dir;
use models::synthetic::{Shape, Synthetic};
use models::text::Text;
use std::sync::Arc;
use std::time::Duration;

#[derive(Message)]
#[rtype(result = "()")]
struct Panic;

/// To Scheduler: pass a panic on to the KV-budget.
#[derive(Message)]
#[rtype(result = "()")]
struct PanicBudget;

/// To Scheduler: the model dies while a step is on its way to it.
#[derive(Message)]
#[rtype(result = "()")]
struct DieUnderWay;

impl Handler<DieUnderWay> for Scheduling {
    type Result = ();
    fn handle(&mut self, _: DieUnderWay, _: &mut Context<Self>) {
        let died = End::Died { cause: WorkerCause::Exit, reason: "told to".into() };
        self.model.do_send(Said { number: 1, what: Saying::Ended(died) });
        // It goes on from a step that the next life has never seen: an engine that is given this fails.
        let row = StepRow { seq: SeqId(1 << 40), input: Input::FromPrevious, start: 5, table: vec![BlockId(1)], draw: None };
        self.model.do_send(RunStep(Step { id: StepId(1 << 40), copies: Vec::new(), rows: vec![row] }));
    }
}

macro_rules! panics {
    ($($actor:ty),*) => {
        $(impl Handler<Panic> for $actor {
            type Result = ();
            fn handle(&mut self, _: Panic, _: &mut Context<Self>) {
                panic!("told to");
            }
        })*
    };
}

panics!(Request, Scheduling, Budget);

impl Handler<PanicBudget> for Scheduling {
    type Result = ();
    fn handle(&mut self, _: PanicBudget, _: &mut Context<Self>) {
        self.budget.do_send(Panic);
    }
}

/// Far more than is generated before a test has looked.
const CONTEXT: u32 = 1 << 20;

fn service() -> Service {
    let dir = tempfile::tempdir().unwrap();
    write_dir(dir.path()).unwrap();
    let text = Arc::new(Text::from_dir(dir.path()).unwrap());
    let opener: Opener = Box::new(|_| Ok(Box::new(Synthetic::new(Shape { context: CONTEXT, blocks: CONTEXT / 16, ..Shape::default() }))));
    crate::start(Home::Thread(opener), Options::default(), text).unwrap()
}

async fn began(service: &Service, max_tokens: Option<u32>) -> Answer {
    let params = Params { max_tokens, ignore_eos: true, temperature: 0.0, ..Params::default() };
    let mut answer =
        service.ask(Ask { id: "test".into(), prompt: Prompt::Text("hi".into()), params, key: Key::default(), answer: "answer".into(), form: Form::default() });
    assert!(matches!(answer.next().await, Some(Event::Began { .. })));
    answer
}

async fn last(mut answer: Answer) -> Event {
    let read = async {
        let mut last = None;
        while let Some(event) = answer.next().await {
            last = Some(event);
        }
        last.unwrap()
    };
    tokio::time::timeout(Duration::from_secs(20), read).await.unwrap()
}

#[actix::test]
async fn a_panic_in_a_request_ends_that_one_only() {
    let service = service();
    let doomed = began(&service, None).await;
    let other = began(&service, Some(300)).await;
    doomed.request.as_ref().unwrap().do_send(Panic);
    let Event::Failed(failure) = last(doomed).await else { panic!("it should have failed") };
    assert!(matches!(failure, Failure::Fault { .. }), "{failure:?}");
    assert!(matches!(last(other).await, Event::Done { .. }));
    // The row is cancelled, not left to run to the end of the context.
    let mut stats = service.watch();
    let idle = stats.wait_for(|s| s.running + s.waiting == 0);
    let generated = tokio::time::timeout(Duration::from_secs(20), idle).await.unwrap().unwrap().tokens.generated;
    assert!(generated < u64::from(CONTEXT) / 2, "{generated}");
    assert_eq!(service.ready(), Ok(()));
}

#[actix::test]
async fn a_panic_in_scheduler_or_budget_is_heard_by_everyone() {
    for budget in [false, true] {
        let service = service();
        let answer = began(&service, None).await;
        let scheduling = &service.loaded().unwrap().desk.scheduling;
        if budget {
            scheduling.do_send(PanicBudget);
        } else {
            scheduling.do_send(Panic);
        }
        let last = last(answer).await;
        assert!(matches!(last, Event::Failed(Failure::Unavailable { .. })), "{budget} {last:?}");
        assert!(matches!(service.ready(), Err(Failure::Unavailable { .. })), "{budget}");
        let params = Params::default();
        let mut late = service.ask(Ask {
            id: "late".into(),
            prompt: Prompt::Text("hi".into()),
            params,
            key: Key::default(),
            answer: "answer".into(),
            form: Form::default(),
        });
        let late = late.next().await;
        assert!(matches!(late, Some(Event::Failed(Failure::Unavailable { .. }))), "{budget} {late:?}");
    }
}

#[actix::test]
async fn a_step_of_a_life_that_has_ended_does_not_reach_the_next() {
    let service = service();
    service.loaded().unwrap().desk.scheduling.do_send(DieUnderWay);
    let mut stats = service.watch();
    let lost = stats.wait_for(|stats| stats.restarts > 0);
    tokio::time::timeout(Duration::from_secs(20), lost).await.unwrap().unwrap();
    let answer = began(&service, Some(50)).await;
    assert!(matches!(last(answer).await, Event::Done { .. }));
    assert_eq!(service.stats().restarts, 1, "the next life died of a step that was not its own");
}
