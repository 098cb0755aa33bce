//! One answer's way through a grammar.

use crate::vocabulary::Vocabulary;
use crate::{bounds, reason};
use kv::Mask;
use llguidance::Matcher;
use llguidance::api::TopLevelGrammar;
use serde_json::{Value, json};

/// What an answer must be.
#[derive(Debug, Clone, PartialEq)]
pub enum Grammar {
    /// JSON that a schema allows.
    Schema(Value),
    /// What a grammar in llguidance's variant of Lark allows.
    Lark(String),
}

/// White space between two words of JSON, at most: a model that likes it must not spend its tokens on nothing else.
const WHITE: &str = r"[\x20\x0A\x0D\x09]{1,16}";

impl Grammar {
    fn top(&self) -> TopLevelGrammar {
        match self {
            Grammar::Lark(text) => TopLevelGrammar::from_lark(text.clone()),
            Grammar::Schema(Value::Object(fields)) if !fields.contains_key(OPTIONS) => {
                let mut fields = fields.clone();
                fields.insert(OPTIONS.into(), json!({"whitespace_pattern": WHITE}));
                TopLevelGrammar::from_json_schema(Value::Object(fields))
            }
            Grammar::Schema(other) => TopLevelGrammar::from_json_schema(other.clone()),
        }
    }
}

/// For as many references as a schema may have one behind the other. Only what is used of it takes memory.
const STACK_BYTES: usize = 512 << 20;

/// Where llguidance looks for options in a schema.
const OPTIONS: &str = "x-guidance";

/// Where an answer is in its grammar. Ids go in, masks come out: one of each in turn.
pub struct Guide(Matcher);

impl Guide {
    /// # Errors
    /// Why the grammar cannot be followed: a schema with words that are not supported, for one.
    pub fn new(vocabulary: &Vocabulary, grammar: &Grammar) -> Result<Guide, String> {
        if let Grammar::Schema(schema) = grammar {
            bounds::check(schema)?;
        }
        // The compiler goes down into what refers to what, and must not meet the end of its stack: that ends the process.
        let compile = || Matcher::new(vocabulary.0.create_parser(grammar.top()));
        let matcher = std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().name("grammar".into()).stack_size(STACK_BYTES).spawn_scoped(scope, compile);
            thread.map_err(|error| format!("no thread for it: {error}"))?.join().map_err(|_| "it cannot be put together".to_owned())
        })?;
        match matcher.get_error() {
            Some(error) => Err(reason(&error)),
            None => Ok(Guide(matcher)),
        }
    }

    /// The ids that may come next; once the grammar is at its end, those that end the answer. Tens of microseconds mostly, and some
    /// milliseconds at times.
    pub fn mask(&mut self) -> Result<Mask, String> {
        let mask = self.0.compute_mask_or_eos().map_err(|error| reason(&error))?;
        if mask.is_zero() {
            return Err("no token fits what was generated so far".into());
        }
        Ok(Mask::new(mask.as_slice()))
    }

    /// The next id. One that ends the answer need not be told.
    pub fn take(&mut self, id: u32) -> Result<(), String> {
        self.0.consume_token(id).map_err(|error| reason(&error))
    }
}

impl std::fmt::Debug for Guide {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Guide").field("stopped", &self.0.is_stopped()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vocabulary::Token;

    /// All bytes, some words, a special token and the one that ends.
    fn tokens() -> Vec<Token> {
        let text = |bytes: &[u8]| Token { bytes: bytes.to_vec(), special: false };
        let words = ["\"name\"", "true", "{\"", "\": ", "12", "call"].map(|word| text(word.as_bytes()));
        let special = ["<call>", "<end>"].map(|name| Token { bytes: name.into(), special: true });
        (0..=255u8).map(|byte| text(&[byte])).chain(words).chain(special).collect()
    }

    const END: u32 = 263;
    const CALL: u32 = 262;

    fn vocabulary() -> Vocabulary {
        Vocabulary::new(tokens(), &[END]).unwrap()
    }

    fn guide(grammar: Grammar) -> Result<Guide, String> {
        Guide::new(&vocabulary(), &grammar)
    }

    /// A walk of random draws, 300 at most.
    fn walk(guide: &mut Guide, seed: u64) -> Option<Vec<u8>> {
        let (mut rng, tokens, mut out) = (fastrand::Rng::with_seed(seed), tokens(), Vec::new());
        for _ in 0..300 {
            let mask = guide.mask().unwrap();
            let may: Vec<u32> = (0..tokens.len() as u32).filter(|id| mask.has(*id)).collect();
            let id = may[rng.usize(..may.len())];
            if id == END {
                return Some(out);
            }
            out.extend_from_slice(&tokens[id as usize].bytes);
            guide.take(id).unwrap();
        }
        None
    }

    #[test]
    fn whatever_is_drawn_is_what_the_schema_allows() {
        let schema = json!({
            "type": "object", "properties": {"name": {"enum": ["ä", "b"]}, "n": {"type": "integer", "minimum": 0, "maximum": 12}, "ok": {"type": "boolean"}},
            "required": ["name", "n"], "additionalProperties": false,
        });
        let mut ended = 0;
        for seed in 0..50 {
            let Some(out) = walk(&mut guide(Grammar::Schema(schema.clone())).unwrap(), seed) else { continue };
            let value: Value = serde_json::from_slice(&out).unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&out)));
            assert!(["ä", "b"].contains(&value["name"].as_str().unwrap()) && value["n"].as_u64().unwrap() <= 12, "{value}");
            assert!(value.get("ok").is_none_or(Value::is_boolean) && value.as_object().unwrap().len() <= 3, "{value}");
            ended += 1;
        }
        assert!(ended > 30, "{ended} of 50 walks ended");
    }

    #[test]
    fn a_schema_may_refer_to_its_own_parts() {
        let schema =
            json!({"$defs": {"n": {"anyOf": [{"type": "null"}, {"type": "array", "items": {"$ref": "#/$defs/n"}, "maxItems": 2}]}}, "$ref": "#/$defs/n"});
        let mut guide = guide(Grammar::Schema(schema)).unwrap();
        b"[[],null]".iter().for_each(|byte| guide.take(u32::from(*byte)).unwrap());
        assert!(guide.mask().unwrap().has(END));
    }

    #[test]
    fn special_tokens_are_no_text() {
        let mut text = guide(Grammar::Lark(r"start: /(.|\n)*/".into())).unwrap();
        let mask = text.mask().unwrap();
        assert!(mask.has(u32::from(b'<')) && mask.has(END) && !mask.has(CALL));
        let mut named = guide(Grammar::Lark("start: <call> \"x\"".into())).unwrap();
        let mask = named.mask().unwrap();
        assert!((0..CALL).all(|id| !mask.has(id)) && mask.has(CALL));
        named.take(CALL).unwrap();
        named.take(u32::from(b'x')).unwrap();
        let end = named.mask().unwrap();
        assert!((0..END).all(|id| !end.has(id)) && end.has(END), "nothing but the end is left");
    }

    #[test]
    fn a_long_chain_of_references_ends_no_process() {
        let chain: serde_json::Map<_, _> = (0..5_000).map(|i| (format!("d{i}"), json!({"$ref": format!("#/$defs/d{}", i + 1)}))).collect();
        let mut schema = json!({"$ref": "#/$defs/d0", "$defs": chain});
        schema["$defs"]["d5000"] = json!({"type": "integer"});
        assert!(guide(Grammar::Schema(schema)).is_ok());
    }

    #[test]
    fn what_cannot_be_followed_is_said() {
        let refused = [
            Grammar::Schema(json!({"allOf": (40..60).map(|i| json!({"pattern": format!(".*a.{{{i}}}b")})).collect::<Vec<Value>>()})),
            Grammar::Schema(json!({"type": "nonsense"})),
            Grammar::Schema(json!({"type": "string", "pattern": "(unclosed"})),
            Grammar::Schema(json!({"$ref": "#/nowhere"})),
            Grammar::Schema(json!({"not": {"type": "string"}})),
            Grammar::Schema(json!(7)),
            Grammar::Schema(json!({"type": "object", "properties": {"a": false}, "required": ["a"]})),
            Grammar::Lark("start: missing".into()),
            Grammar::Lark(String::new()),
        ];
        for grammar in refused {
            let error = guide(grammar.clone()).expect_err(&format!("{grammar:?}"));
            assert!(!error.is_empty() && !error.contains('\n') && !error.contains(".rs"), "{error}");
        }
        let mut guide = guide(Grammar::Schema(json!({"type": "boolean"}))).unwrap();
        assert!(guide.take(u32::from(b'x')).is_err());
        assert!(Vocabulary::new(tokens(), &[9999]).is_err());
    }
}
