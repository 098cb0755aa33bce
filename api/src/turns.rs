//! A conversation as chat templates expect it, put together from protocols that write it in smaller pieces.
//!
//! What follows in the same role is one message: many templates refuse two in a row.

use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Between pieces that the client wrote apart.
const APART: &str = "\n\n";

/// Objects with `role` and a string `content`, and what templates read of tool use.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    messages: Vec<Value>,
    /// The tool that each call is of: some templates show its name beside the result.
    called: BTreeMap<String, String>,
}

impl Turns {
    /// Goes on from what these messages said.
    pub(crate) fn after(messages: Vec<Value>) -> Turns {
        let calls = messages.iter().filter_map(|message| message["tool_calls"].as_array()).flatten();
        let called = calls.filter_map(|call| Some((call["id"].as_str()?.to_owned(), call["function"]["name"].as_str()?.to_owned())));
        Turns { called: called.collect(), messages }
    }

    /// `role` is `system`, `user` or `assistant`.
    pub(crate) fn say(&mut self, role: &'static str, text: &str) {
        append(self.last(role), "content", text);
    }

    /// What the assistant thought.
    pub(crate) fn reason(&mut self, text: &str) {
        append(self.last("assistant"), "reasoning_content", text);
    }

    pub(crate) fn call(&mut self, id: String, name: String, arguments: Map<String, Value>) {
        let call = json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}});
        self.called.insert(id, name);
        let calls = self.last("assistant").entry("tool_calls").or_insert_with(|| json!([]));
        if let Value::Array(calls) = calls {
            calls.push(call);
        }
    }

    /// What a tool gave for the call with this id.
    pub(crate) fn result(&mut self, id: String, text: String) {
        let mut message = Map::from_iter([("role".to_owned(), "tool".into()), ("content".to_owned(), text.into())]);
        if let Some(name) = self.called.get(&id) {
            message.insert("name".into(), name.clone().into());
        }
        message.insert("tool_call_id".into(), id.into());
        self.messages.push(message.into());
    }

    pub(crate) fn messages(self) -> Vec<Value> {
        self.messages
    }

    /// The message that is being said by `role`.
    fn last(&mut self, role: &'static str) -> &mut Map<String, Value> {
        if self.messages.last().is_none_or(|message| message["role"] != role) {
            self.messages.push(json!({"role": role, "content": ""}));
        }
        self.messages.last_mut().and_then(Value::as_object_mut).expect("the last message is an object, and there is one")
    }
}

fn append(message: &mut Map<String, Value>, field: &str, text: &str) {
    if let Value::String(all) = message.entry(field).or_insert_with(|| "".into()) {
        if !all.is_empty() && !text.is_empty() {
            all.push_str(APART);
        }
        all.push_str(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_one_role_are_one_message_and_results_know_their_tool() {
        let mut turns = Turns::default();
        turns.say("system", "a");
        turns.say("system", "");
        turns.say("user", "b");
        turns.say("user", "c");
        turns.reason("hm");
        turns.say("assistant", "d");
        turns.call("1".into(), "f".into(), Map::new());
        let mut turns = Turns::after(turns.messages());
        turns.call("2".into(), "g".into(), Map::new());
        turns.result("1".into(), "x".into());
        turns.result("9".into(), "y".into());
        let call = |id: &str, name: &str| json!({"id": id, "type": "function", "function": {"name": name, "arguments": {}}});
        let want = json!([
            {"role": "system", "content": "a"},
            {"role": "user", "content": "b\n\nc"},
            {"role": "assistant", "content": "d", "reasoning_content": "hm", "tool_calls": [call("1", "f"), call("2", "g")]},
            {"role": "tool", "content": "x", "name": "f", "tool_call_id": "1"},
            {"role": "tool", "content": "y", "tool_call_id": "9"},
        ]);
        assert_eq!(Value::Array(turns.messages()), want);
    }
}
