//! What a panic inside one actor does to the others and to the clients: nobody waits for ever, and a request's panic is its own.

use crate::budget::Budget;
use crate::request::Request;
use crate::scheduling::Scheduling;
use crate::{Answer, Ask, Event, Failure, Opener, Options, Params, Prompt, Service};
use actix::{Context, Handler, Message};
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
    let opener: Opener = Box::new(|| Ok(Box::new(Synthetic::new(Shape { context: CONTEXT, blocks: CONTEXT / 16, ..Shape::default() }))));
    crate::start(opener, Options::default(), text).unwrap()
}

async fn began(service: &Service, max_tokens: Option<u32>) -> Answer {
    let params = Params { max_tokens, ignore_eos: true, temperature: 0.0, ..Params::default() };
    let mut answer = service.ask(Ask { id: "test".into(), prompt: Prompt::Text("hi".into()), params });
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
        let scheduling = &service.0.desk.scheduling;
        if budget {
            scheduling.do_send(PanicBudget);
        } else {
            scheduling.do_send(Panic);
        }
        let last = last(answer).await;
        assert!(matches!(last, Event::Failed(Failure::Unavailable { .. })), "{budget} {last:?}");
        assert!(matches!(service.ready(), Err(Failure::Unavailable { .. })), "{budget}");
        let params = Params::default();
        let mut late = service.ask(Ask { id: "late".into(), prompt: Prompt::Text("hi".into()), params });
        let late = late.next().await;
        assert!(matches!(late, Some(Event::Failed(Failure::Unavailable { .. }))), "{budget} {late:?}");
    }
}
