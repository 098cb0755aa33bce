//! The text side of a model directory in Hugging Face's layout.

use super::template::{ChatTemplates, DEFAULT};
use super::{Parts, TextError, merges};
use crate::plain;
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};
use tokenizers::{AddedToken, Tokenizer};

/// The special tokens that templates know by name.
const NAMED: [&str; 7] = ["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"];

/// Far above any: the largest vocabularies in use take some tens of megabytes.
const TOKENIZER_BYTES_MAX: u64 = 256 << 20;

/// Far above any of the other files; what is longest in them is a chat template.
const BYTES_MAX: u64 = 16 << 20;

/// Far above any vocabulary.
const ID_MAX: u32 = (1 << 24) - 1;

pub(super) fn load(dir: &Path) -> Result<Parts, TextError> {
    let config = JsonFile::optional(dir.join("tokenizer_config.json"))?;
    let map = JsonFile::optional(dir.join("special_tokens_map.json"))?;
    let mut tokenizer = read_tokenizer(&dir.join("tokenizer.json"))?;
    add_missing_tokens(&mut tokenizer, &config)?;
    let specials = specials(&config, &map)?;
    let stop_ids = stop_ids(dir, &tokenizer, &specials, &config)?;
    let (file, sources) = templates(dir, &config)?;
    let templates = ChatTemplates::new(sources, specials).map_err(|reason| TextError::File { file, reason })?;
    Ok(Parts { tokenizer, templates, stop_ids })
}

/// One JSON file, an object at the top. A file that does not exist is an empty object.
struct JsonFile {
    path: PathBuf,
    json: Map<String, Value>,
}

impl JsonFile {
    fn optional(path: PathBuf) -> Result<Self, TextError> {
        let mut file = Self { path, json: Map::new() };
        let Some(text) = read_optional(&file.path, BYTES_MAX)? else {
            return Ok(file);
        };
        match serde_json::from_str(&text) {
            Ok(Value::Object(json)) => file.json = json,
            Ok(_) => return Err(file.wrong("must be a JSON object")),
            Err(e) => return Err(file.wrong(&format!("is not JSON: {e}"))),
        }
        Ok(file)
    }

    /// The field, unless it is missing or null.
    fn get(&self, field: &str) -> Option<&Value> {
        self.json.get(field).filter(|v| !v.is_null())
    }

    fn wrong(&self, reason: &str) -> TextError {
        TextError::File { file: self.path.clone(), reason: reason.to_owned() }
    }

    /// A special token's text: a string, or an object with its `content`.
    fn token(&self, field: &str) -> Result<Option<&str>, TextError> {
        let Some(value) = self.get(field) else {
            return Ok(None);
        };
        token_text(value).map(Some).ok_or_else(|| self.wrong(&format!("{field}: must be a string, an object with \"content\", or null")))
    }
}

fn token_text(value: &Value) -> Option<&str> {
    value.as_str().or_else(|| value.get("content")?.as_str())
}

fn read_optional(path: &Path, bytes_max: u64) -> Result<Option<String>, TextError> {
    match plain::read(path, bytes_max) {
        Ok(text) => Ok(Some(text)),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(TextError::File { file: path.to_owned(), reason: e.to_string() }),
    }
}

fn read_tokenizer(path: &Path) -> Result<Tokenizer, TextError> {
    let wrong = |reason| TextError::File { file: path.to_owned(), reason };
    let text = read_optional(path, TOKENIZER_BYTES_MAX)?
        .ok_or_else(|| wrong("not found: a model directory needs the tokenizer in this form (a tokenizer.model alone is not read)".into()))?;
    let json: Value = serde_json::from_str(&text).map_err(|e| wrong(format!("not a tokenizer: {e}")))?;
    merges::check_json(&json["model"]).map_err(wrong)?;
    let tokenizer = Tokenizer::from_bytes(text).map_err(|e| wrong(format!("not a tokenizer: {e}")))?;
    let decoder = tokenizer.get_decoder().map(serde_json::to_value).transpose().map_err(|e| wrong(format!("decoder: {e}")))?;
    if decoder.is_some_and(|d| strips_ends(&d)) {
        return Err(wrong("decoder: Strip with a stop above 0 is not served: it fails on tokens that are shorter".into()));
    }
    let processor = tokenizer.get_post_processor().map(serde_json::to_value).transpose().map_err(|e| wrong(format!("post_processor: {e}")))?;
    processor.as_ref().map_or(Ok(()), check_processor).map_err(|what| wrong(format!("post_processor: {what}")))?;
    // Tables are as long as the greatest id.
    match tokenizer.get_vocab(true).into_iter().max_by_key(|(_, id)| *id) {
        Some((token, id)) if id > ID_MAX => Err(wrong(format!("token {token:?} has id {id}: at most {ID_MAX} is served"))),
        _ => Ok(tokenizer),
    }
}

/// The crate `tokenizers` counts back from a token's end without looking whether it has begun (`decoders/strip.rs`).
fn strips_ends(decoder: &Value) -> bool {
    let within = decoder.get("decoders").and_then(Value::as_array);
    (decoder["type"] == "Strip" && decoder["stop"] != 0) || within.is_some_and(|steps| steps.iter().any(strips_ends))
}

/// A template of the crate `tokenizers` takes for granted that its special tokens are there, and that a second text is (`processors/template.rs`).
fn check_processor(processor: &Value) -> Result<(), String> {
    processor.get("processors").and_then(Value::as_array).into_iter().flatten().try_for_each(check_processor)?;
    if processor["type"] != "TemplateProcessing" {
        return Ok(());
    }
    let tokens = &processor["special_tokens"];
    for piece in processor["single"].as_array().into_iter().flatten() {
        if let Some(id) = piece["SpecialToken"]["id"].as_str() {
            let count = |list: &str| tokens[id][list].as_array().map(Vec::len);
            match (count("ids"), count("tokens")) {
                (Some(ids), Some(texts)) if ids == texts => {}
                (None, _) | (_, None) => return Err(format!("single has {id:?}, which is not among special_tokens")),
                _ => return Err(format!("special_tokens: {id:?} has more or fewer ids than tokens")),
            }
        }
        if piece["Sequence"]["id"].as_str().is_some_and(|id| id != "A") {
            return Err("single has a Sequence that is not \"A\": there is one text".into());
        }
    }
    Ok(())
}

/// `added_tokens_decoder` may name tokens that tokenizer.json does not have; they must get the ids that it gives them.
fn add_missing_tokens(tokenizer: &mut Tokenizer, config: &JsonFile) -> Result<(), TextError> {
    const FIELD: &str = "added_tokens_decoder";
    let Some(value) = config.get(FIELD) else {
        return Ok(());
    };
    let allowed = || config.wrong(&format!("{FIELD}: must map ids to objects with a \"content\""));
    let mut tokens = Vec::new();
    for (id, value) in value.as_object().ok_or_else(allowed)? {
        let id: u32 = id.parse().map_err(|_| allowed())?;
        let content = token_text(value).ok_or_else(allowed)?;
        let flag = |name: &str, default| value.get(name).and_then(Value::as_bool).unwrap_or(default);
        let special = flag("special", false);
        let token = AddedToken::from(content, special)
            .single_word(flag("single_word", false))
            .lstrip(flag("lstrip", false))
            .rstrip(flag("rstrip", false))
            .normalized(flag("normalized", !special));
        tokens.push((id, token));
    }
    tokens.sort_by_key(|(id, _)| *id);
    let known = tokenizer.get_added_tokens_decoder();
    tokens.retain(|(id, token)| known.get(id).is_none_or(|t| t.content != token.content));
    // All at once: the tokenizer looks through its whole list after each adding.
    tokenizer.add_tokens(tokens.iter().map(|(_, token)| token.clone())).map_err(|e| config.wrong(&format!("{FIELD}: {e}")))?;
    for (id, AddedToken { content, .. }) in &tokens {
        let got = tokenizer.token_to_id(content);
        if got != Some(*id) {
            let got = got.map_or("none".into(), |g| g.to_string());
            let text = format!("{FIELD}: {content:?} has id {id}, but tokenizer.json leaves it id {got}");
            return Err(config.wrong(&text));
        }
    }
    Ok(())
}

/// Variables for the template. The tokenizer's configuration wins over the older map.
fn specials(config: &JsonFile, map: &JsonFile) -> Result<Map<String, Value>, TextError> {
    let mut out = Map::new();
    for name in NAMED {
        let token = match config.token(name)? {
            None => map.token(name)?,
            token => token,
        };
        if let Some(token) = token {
            out.insert(name.to_owned(), token.into());
        }
    }
    // Newer configurations name a model's other tokens here (image_token, …), for templates to use.
    if let Some(Value::Object(extra)) = config.get("extra_special_tokens") {
        for (name, value) in extra {
            if let Some(text) = token_text(value) {
                out.insert(name.clone(), text.into());
            }
        }
    }
    Ok(out)
}

/// Every source is believed: a chat model's own end of turn is often in only one of them.
fn stop_ids(dir: &Path, tokenizer: &Tokenizer, specials: &Map<String, Value>, config: &JsonFile) -> Result<Vec<u32>, TextError> {
    let mut ids = Vec::new();
    if let Some(eos) = specials.get("eos_token").and_then(Value::as_str) {
        ids.push(tokenizer.token_to_id(eos).ok_or_else(|| config.wrong(&format!("eos_token: {eos:?} is not in the vocabulary of tokenizer.json")))?);
    }
    for name in ["generation_config.json", "config.json"] {
        let file = JsonFile::optional(dir.join(name))?;
        // Models with several modalities keep their language model's fields one level down.
        let nested = file.get("text_config").and_then(|t| t.get("eos_token_id"));
        for value in file.get("eos_token_id").into_iter().chain(nested) {
            ids.extend(id_or_list(value).ok_or_else(|| file.wrong("eos_token_id: must be an id, a list of ids, or null"))?);
        }
    }
    Ok(ids)
}

fn id_or_list(value: &Value) -> Option<Vec<u32>> {
    let id = |v: &Value| v.as_u64().and_then(|v| u32::try_from(v).ok());
    match value {
        Value::Null => Some(Vec::new()),
        Value::Array(list) => list.iter().map(id).collect(),
        one => id(one).map(|id| vec![id]),
    }
}

/// The templates as (name, source), and the file that they come from: the first that has any.
fn templates(dir: &Path, config: &JsonFile) -> Result<(PathBuf, Vec<(String, String)>), TextError> {
    let jinja = dir.join("chat_template.jinja");
    if let Some(source) = read_optional(&jinja, BYTES_MAX)? {
        return Ok((jinja, vec![(DEFAULT.to_owned(), source)]));
    }
    let own = JsonFile::optional(dir.join("chat_template.json"))?;
    let file = if own.get("chat_template").is_some() { &own } else { config };
    let allowed = || file.wrong("chat_template: must be a string, or a list of objects with \"name\" and \"template\"");
    let sources = match file.get("chat_template") {
        None => Vec::new(),
        Some(Value::String(source)) => vec![(DEFAULT.to_owned(), source.clone())],
        Some(Value::Array(list)) => {
            list.iter().map(|t| Some((t.get("name")?.as_str()?.into(), t.get("template")?.as_str()?.into()))).collect::<Option<_>>().ok_or_else(allowed)?
        }
        Some(_) => return Err(allowed()),
    };
    Ok((file.path.clone(), sources))
}
