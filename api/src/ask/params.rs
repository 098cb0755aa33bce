//! Sampling and limits: the fields that chats and completions have alike, and how each asks for log-probabilities.

use crate::fields::{Fields, wrong};
use crate::refusal::Refusal;
use actors::Params;
use serde_json::{Map, Value};

/// Stop strings a request may have.
const STOPS_MAX: usize = 16;
/// Of the likeliest tokens, so many may be asked for.
const TOP_LOGPROBS_MAX: i128 = 20;
/// Ids that a request may bias.
const BIASES_MAX: usize = 1024;
const PENALTIES: &str = "a number from -2 to 2";

/// What a protocol calls these fields, where protocols differ.
pub(crate) struct Names {
    /// Of two that are sent, the later name here counts.
    pub(crate) max_tokens: &'static [&'static str],
    pub(crate) stop: &'static str,
    pub(crate) temperature_max: f32,
}

/// OpenAI's names in chats and completions.
pub(super) const OPENAI: Names = Names { max_tokens: &["max_tokens", "max_completion_tokens"], stop: "stop", temperature_max: 2.0 };

/// What [`Params`] has of every protocol.
pub(crate) fn read(fields: &mut Fields, names: &Names) -> Result<Params, Refusal> {
    let tokens = |n: i128| n as u32;
    let all = i128::from(u32::MAX);
    let mut max_tokens = None;
    for name in names.max_tokens {
        max_tokens = fields.integer(name, 1..=all)?.map(tokens).or(max_tokens);
    }
    let min_tokens = fields.integer("min_tokens", 0..=all)?.map_or(0, tokens);
    if max_tokens.is_some_and(|max| min_tokens > max) {
        return Err(Refusal::field("min_tokens", "must not be larger than max_tokens"));
    }
    let default = Params::default();
    Ok(Params {
        max_tokens,
        usual_tokens: None,
        min_tokens,
        temperature: fields
            .number("temperature", &format!("a number from 0 to {}", names.temperature_max), |x| (0.0..=names.temperature_max).contains(&x))?
            .unwrap_or(default.temperature),
        top_p: fields.number("top_p", "a number above 0 and up to 1", |x| x > 0.0 && x <= 1.0)?.unwrap_or(default.top_p),
        // −1 is the older way to say "off".
        top_k: fields.integer("top_k", -1..=all)?.map_or(default.top_k, |k| k.max(0) as u32),
        min_p: fields.number("min_p", "a number from 0 to 1", |x| (0.0..=1.0).contains(&x))?.unwrap_or(default.min_p),
        // A negative seed is as good as any: its bits are kept.
        seed: fields.integer("seed", i128::from(i64::MIN)..=i128::from(u64::MAX))?.map(|n| n as u64),
        stop: stop(names.stop, fields.take(names.stop))?,
        ignore_eos: fields.flag("ignore_eos")?.unwrap_or(false),
        presence_penalty: fields.number("presence_penalty", PENALTIES, |x| (-2.0..=2.0).contains(&x))?.unwrap_or(0.0),
        frequency_penalty: fields.number("frequency_penalty", PENALTIES, |x| (-2.0..=2.0).contains(&x))?.unwrap_or(0.0),
        repetition_penalty: fields.number("repetition_penalty", "a number above 0 and up to 100", |x| x > 0.0 && x <= 100.0)?.unwrap_or(1.0),
        logit_bias: bias(fields.object("logit_bias")?.unwrap_or_default())?,
        logprobs: None,
        priority: fields.integer("priority", i128::from(i32::MIN)..=i128::from(i32::MAX))?.map_or(0, |n| n as i32),
    })
}

fn stop(name: &str, value: Option<Value>) -> Result<Vec<String>, Refusal> {
    let one = |path: &str, value: Value| match value {
        Value::String(s) if !s.is_empty() => Ok(s),
        other => Err(wrong(path, "a string of at least one character", &other)),
    };
    match value {
        None => Ok(Vec::new()),
        Some(Value::Array(list)) if list.len() > STOPS_MAX => Err(Refusal::field(name, format!("must have at most {STOPS_MAX} strings, not {}", list.len()))),
        Some(Value::Array(list)) => list.into_iter().enumerate().map(|(i, v)| one(&format!("{name}[{i}]"), v)).collect(),
        Some(string @ Value::String(_)) => Ok(vec![one(name, string)?]),
        Some(other) => Err(wrong(name, "a string or an array of strings", &other)),
    }
}

/// Ids, written as strings, and what is added to their logits. Whether the model has them is for the model's side to say.
fn bias(map: Map<String, Value>) -> Result<Vec<(u32, f32)>, Refusal> {
    if map.len() > BIASES_MAX {
        return Err(Refusal::field("logit_bias", format!("must have at most {BIASES_MAX} ids, not {}", map.len())));
    }
    let one = |(id, value): (String, Value)| {
        let id = id.parse::<u32>().map_err(|_| Refusal::field("logit_bias", "must have token ids, integers from 0, as its names"))?;
        let bias = value.as_f64().map(|x| x as f32).filter(|x| (-100.0..=100.0).contains(x));
        Ok((id, bias.ok_or_else(|| wrong(&format!("logit_bias.{id}"), "a number from -100 to 100", &value))?))
    };
    let mut all = map.into_iter().map(one).collect::<Result<Vec<(u32, f32)>, Refusal>>()?;
    // "7" and "07" are one id.
    all.sort_by_key(|(id, _)| *id);
    all.dedup_by_key(|(id, _)| *id);
    Ok(all)
}

/// `logprobs` is a flag, `top_logprobs` how many of the likeliest.
pub(super) fn chat_logprobs(fields: &mut Fields) -> Result<Option<u8>, Refusal> {
    let wanted = fields.flag("logprobs")?.unwrap_or(false);
    let top = top_logprobs(fields)?;
    if top > 0 && !wanted {
        return Err(Refusal::field("top_logprobs", "must be 0 or absent unless logprobs is true"));
    }
    Ok(wanted.then_some(top))
}

/// How many of the likeliest.
pub(crate) fn top_logprobs(fields: &mut Fields) -> Result<u8, Refusal> {
    Ok(fields.integer("top_logprobs", 0..=TOP_LOGPROBS_MAX)?.map_or(0, |n| n as u8))
}

/// `logprobs` is how many of the likeliest, and 0 still asks for the chosen token's; some clients send chat's false.
pub(super) fn text_logprobs(fields: &mut Fields) -> Result<Option<u8>, Refusal> {
    match fields.take("logprobs") {
        None | Some(Value::Bool(false)) => Ok(None),
        Some(value) => {
            let n = crate::fields::integer(&value).filter(|n| (0..=TOP_LOGPROBS_MAX).contains(n));
            n.map(|n| Some(n as u8)).ok_or_else(|| wrong("logprobs", &format!("an integer from 0 to {TOP_LOGPROBS_MAX}"), &value))
        }
    }
}
