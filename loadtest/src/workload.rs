//! Which prompts are sent, in which order, and which clients leave early. Pure: the same seed gives the same workload.

use crate::chat::Message;
use serde::Deserialize;

/// Prompts that a model answers at length, for when no file is given.
const BUILT_IN: &[&str] = &[
    "Write a detailed story about a lighthouse keeper who finds a message in a bottle.",
    "Explain step by step how bread is made, from grain to loaf, with all the details.",
    "Describe the history of the bicycle from its invention until today.",
    "Write a long letter to a friend about a journey through the mountains.",
    "Explain how a computer stores numbers, text, pictures and sound.",
    "Give a thorough introduction to growing vegetables in a small garden.",
    "Tell the story of a day in the life of a city, hour by hour.",
    "Describe in detail how the human heart works.",
    "Write an essay about the advantages and the drawbacks of working from home.",
    "Explain the rules and the basic strategy of chess to a beginner.",
    "Write a dialogue between a teacher and a student about the solar system.",
    "Describe how a ship crosses an ocean, and what each member of the crew does.",
    "Write a guide for visitors to a national park, with advice for each season.",
    "Explain what inflation is, where it comes from and what it does to people.",
    "Tell a long fairy tale about a fox, a crow and a winter without end.",
    "Describe how a film is made, from the first idea to the first evening in a cinema.",
];

/// A conversation: some messages that are there already, then turns of a user, each asked when the one before is answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conversation {
    pub before: Vec<Message>,
    pub turns: Vec<String>,
}

/// One line of a prompts file: exactly one of the three.
#[derive(Deserialize)]
struct Line {
    prompt: Option<String>,
    turns: Option<Vec<String>>,
    messages: Option<Vec<Message>>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct PromptsError {
    pub line: usize,
    pub reason: String,
}

/// The prompts to use when none are given.
pub fn built_in() -> Vec<Conversation> {
    BUILT_IN.iter().map(|p| Conversation { before: Vec::new(), turns: vec![(*p).to_owned()] }).collect()
}

/// Reads JSON lines, each with `prompt` (text), `turns` (texts), or `messages` (the last one a user's). Other fields are ignored.
pub fn parse(text: &str) -> Result<Vec<Conversation>, PromptsError> {
    let mut conversations = Vec::new();
    for (i, text) in text.lines().enumerate().filter(|(_, text)| !text.trim().is_empty()) {
        let fail = |reason: String| PromptsError { line: i + 1, reason };
        let line: Line = serde_json::from_str(text).map_err(|e| fail(e.to_string()))?;
        let conversation = match (line.prompt, line.turns, line.messages) {
            (Some(prompt), None, None) => Conversation { before: Vec::new(), turns: vec![prompt] },
            (None, Some(turns), None) if !turns.is_empty() => Conversation { before: Vec::new(), turns },
            (None, None, Some(mut before)) => match before.pop() {
                Some(last) if last.role == "user" => Conversation { before, turns: vec![last.content] },
                _ => return Err(fail("messages must end with one of role user".into())),
            },
            _ => {
                return Err(fail("it must have exactly one of prompt, turns (not empty), messages".into()));
            }
        };
        conversations.push(conversation);
    }
    if conversations.is_empty() {
        return Err(PromptsError { line: 1, reason: "the file has no prompt".into() });
    }
    Ok(conversations)
}

/// A conversation that one client holds.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    pub conversation: Conversation,
    /// Index of its first request among all requests.
    pub first: usize,
}

/// `requests` requests out of `conversations`, in their order and over again, from the `skip`th conversation on. The last is cut
/// to fit. Returns the jobs and how many conversations they took.
pub fn plan(conversations: &[Conversation], skip: usize, requests: usize) -> Vec<Job> {
    let mut jobs = Vec::new();
    let mut planned = 0;
    for conversation in conversations.iter().cycle().skip(skip) {
        if planned >= requests {
            break;
        }
        let mut conversation = conversation.clone();
        conversation.turns.truncate(requests - planned);
        jobs.push(Job { first: planned, conversation });
        planned += jobs.last().map_or(0, |job| job.conversation.turns.len());
    }
    jobs
}

/// After how many pieces of text the client of request `index` leaves; None if it stays. A `fraction` of 1 makes all leave.
pub fn leaves_after(seed: u64, index: usize, fraction: f64, max_tokens: u32) -> Option<u32> {
    let draw = mix(seed ^ mix(index as u64));
    // 53 bits make a number in [0, 1) that f64 holds exactly.
    let unit = (draw >> 11) as f64 / (1u64 << 53) as f64;
    let half = u64::from(max_tokens / 2).max(1);
    (unit < fraction).then(|| 1 + (mix(draw) % half) as u32)
}

/// SplitMix64's finaliser (Steele, Lea, Flood 2014).
fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turns(turns: &[&str]) -> Conversation {
        Conversation { before: Vec::new(), turns: turns.iter().map(|t| (*t).to_owned()).collect() }
    }

    #[test]
    fn a_line_is_a_prompt_turns_or_messages() {
        let text = r#"{"prompt":"a"}

{"question_id":81,"turns":["b","c"]}
{"messages":[{"role":"system","content":"s"},{"role":"user","content":"d"}]}"#;
        let system = Message { role: "system".into(), content: "s".into() };
        let last = Conversation { before: vec![system], ..turns(&["d"]) };
        assert_eq!(parse(text).unwrap(), [turns(&["a"]), turns(&["b", "c"]), last]);
    }

    #[test]
    fn a_bad_line_is_named() {
        for (text, line) in [
            ("", 1),
            ("{\"prompt\":\"a\"}\nnonsense", 2),
            ("{}", 1),
            ("{\"turns\":[]}", 1),
            ("{\"prompt\":\"a\",\"turns\":[\"b\"]}", 1),
            ("\n{\"messages\":[{\"role\":\"assistant\",\"content\":\"d\"}]}", 2),
            ("{\"messages\":[]}", 1),
            ("{\"prompt\":3}", 1),
        ] {
            assert_eq!(parse(text).unwrap_err().line, line, "{text}");
        }
    }

    #[test]
    fn a_plan_has_exactly_the_requests() {
        let conversations = [turns(&["a"]), turns(&["b", "c"])];
        for (skip, requests, expect) in
            [(0, 0, vec![]), (0, 2, vec![vec!["a"], vec!["b"]]), (0, 4, vec![vec!["a"], vec!["b", "c"], vec!["a"]]), (1, 3, vec![vec!["b", "c"], vec!["a"]])]
        {
            let jobs = plan(&conversations, skip, requests);
            let got: Vec<Vec<&str>> = jobs.iter().map(|j| j.conversation.turns.iter().map(String::as_str).collect()).collect();
            assert_eq!(got, expect, "skip {skip}, requests {requests}");
            let firsts: Vec<usize> = jobs.iter().map(|j| j.first).collect();
            let ends = jobs.iter().scan(0, |end, j| {
                let first = *end;
                *end += j.conversation.turns.len();
                Some(first)
            });
            assert_eq!(firsts, ends.collect::<Vec<_>>());
        }
    }

    #[test]
    fn the_fraction_that_leaves_is_the_one_asked_for() {
        for (fraction, low, high) in [(0.0, 0, 0), (0.25, 200, 300), (1.0, 1000, 1000)] {
            let leaving = (0..1000).filter(|&i| leaves_after(7, i, fraction, 64).is_some()).count();
            assert!((low..=high).contains(&leaving), "{fraction}: {leaving}");
        }
        for i in 0..1000 {
            let after = leaves_after(7, i, 1.0, 64).unwrap();
            assert!((1..=32).contains(&after), "{after}");
            assert_eq!(leaves_after(7, i, 1.0, 1), Some(1));
        }
        assert_ne!((0..64).map(|i| leaves_after(1, i, 0.5, 64)).collect::<Vec<_>>(), (0..64).map(|i| leaves_after(2, i, 0.5, 64)).collect::<Vec<_>>());
    }
}
