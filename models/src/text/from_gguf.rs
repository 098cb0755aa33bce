//! The text side of a GGUF file: a tokenizer built from its vocabulary, in the form its model was trained with.

use super::template::{ChatTemplates, DEFAULT};
use super::{Parts, TextError, merges, pretokenize, spm};
use crate::gguf::{File, GgufError};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use tokenizers::models::bpe::{BPE, BpeBuilder, Vocab as BpeVocab};
use tokenizers::{AddedToken, DecoderWrapper, NormalizerWrapper, PostProcessorWrapper, PreTokenizerWrapper, Tokenizer};

const MODEL: &str = "tokenizer.ggml.model";
const PRE: &str = "tokenizer.ggml.pre";
const TOKENS: &str = "tokenizer.ggml.tokens";
const TYPES: &str = "tokenizer.ggml.token_type";
const SCORES: &str = "tokenizer.ggml.scores";
const MERGES: &str = "tokenizer.ggml.merges";
const TEMPLATE: &str = "tokenizer.chat_template";

/// Far above any token; finding the ways to merge a token takes the square of its length.
const TOKEN_BYTES_MAX: usize = 1024;

/// Values of `token_type`.
const NORMAL: i32 = 1;
const CONTROL: i32 = 3;
const USER_DEFINED: i32 = 4;

/// The file's vocabulary, checked.
struct Vocab<'a> {
    file: &'a File,
    tokens: &'a [String],
    types: Option<&'a [i32]>,
}

pub(super) fn load(file: &File) -> Result<Parts, TextError> {
    let vocab = Vocab::read(file)?;
    let (mut tokenizer, add_bos) = match file.str(MODEL)? {
        "gpt2" => vocab.byte_level()?,
        "llama" => vocab.sentence_piece()?,
        other => {
            let reason = format!("is {other:?}, must be gpt2 or llama");
            return Err(file.key_error(MODEL, reason).into());
        }
    };
    vocab.add_special(&mut tokenizer)?;
    vocab.add_around(&mut tokenizer, add_bos)?;
    let mut stop_ids = Vec::new();
    for name in ["eos", "eot", "eom"] {
        stop_ids.extend(vocab.special_id(name)?);
    }
    let templates = ChatTemplates::new(templates(file)?, vocab.specials()?).map_err(|reason| file.key_error(TEMPLATE, reason))?;
    Ok(Parts { tokenizer, templates, stop_ids })
}

impl<'a> Vocab<'a> {
    fn read(file: &'a File) -> Result<Self, GgufError> {
        let tokens = file.strings(TOKENS)?;
        let types = file.i32s_opt(TYPES)?;
        if let Some(types) = types {
            same_length(file, TYPES, types.len(), tokens.len())?;
        }
        if let Some((id, token)) = tokens.iter().enumerate().find(|(_, t)| t.len() > TOKEN_BYTES_MAX) {
            return Err(file.key_error(TOKENS, format!("token {id} has {} bytes, must have at most {TOKEN_BYTES_MAX}", token.len())));
        }
        let vocab = Self { file, tokens, types };
        vocab.ids()?;
        Ok(vocab)
    }

    fn kind(&self, id: usize) -> i32 {
        self.types.map_or(NORMAL, |t| t[id])
    }

    /// Ids by text. A text that is there twice would lose one of its ids.
    fn ids(&self) -> Result<HashMap<&'a str, u32>, GgufError> {
        let mut ids = HashMap::with_capacity(self.tokens.len());
        for (id, token) in self.tokens.iter().enumerate() {
            if let Some(first) = ids.insert(token.as_str(), id as u32) {
                let reason = format!("tokens {first} and {id} are both {token:?}, must differ");
                return Err(self.file.key_error(TOKENS, reason));
            }
        }
        Ok(ids)
    }

    fn builder(&self, merges: Vec<(String, String)>) -> Result<BpeBuilder, GgufError> {
        let ids = self.ids()?;
        merges::check(merges.iter().map(|(a, b)| (a.as_str(), b.as_str())), "", |t| ids.contains_key(t)).map_err(|why| self.file.key_error(MERGES, why))?;
        let vocab: BpeVocab = ids.into_iter().map(|(t, id)| (t.to_owned(), id)).collect();
        Ok(BPE::builder().vocab_and_merges(vocab, merges))
    }

    /// GPT-2's scheme. Also says whether such a model wants a BOS when the file does not.
    fn byte_level(&self) -> Result<(Tokenizer, bool), TextError> {
        let pre = self.file.str_opt(PRE)?.unwrap_or("default");
        let cut = pretokenize::by_name(pre).ok_or_else(|| {
            let reason = format!("is {pre:?}, must be {}", pretokenize::ALLOWED);
            self.file.key_error(PRE, reason)
        })?;
        let merges = self.merges()?;
        let model = self.builder(merges)?.ignore_merges(cut.ignore_merges).build();
        let mut t = Tokenizer::new(model.map_err(|e| self.file.key_error(MERGES, e.to_string()))?);
        if let Some(normalizer) = cut.normalizer {
            t.with_normalizer(Some(part::<NormalizerWrapper>(normalizer)?)).map_err(encode)?;
        }
        t.with_pre_tokenizer(Some(part::<PreTokenizerWrapper>(cut.pre_tokenizer)?));
        t.with_decoder(Some(part::<DecoderWrapper>(pretokenize::byte_level(true))?));
        Ok((t, cut.add_bos))
    }

    /// The file's own merges, the first to apply first.
    fn merges(&self) -> Result<Vec<(String, String)>, GgufError> {
        let mut merges = Vec::new();
        for line in self.file.strings(MERGES)? {
            // The first character is never the separator: it may be a space of the left part.
            let at = line.char_indices().skip(1).find(|(_, c)| *c == ' ').map(|(at, _)| at);
            let Some(at) = at else {
                let reason = format!("{line:?} must be two tokens with a space between");
                return Err(self.file.key_error(MERGES, reason));
            };
            merges.push((line[..at].to_owned(), line[at + 1..].to_owned()));
        }
        Ok(merges)
    }

    /// The file's merges if it has them, as conversions from tokenizer.json do, whose scores mean nothing. Else by score.
    fn sentence_merges(&self) -> Result<Vec<(String, String)>, GgufError> {
        if self.file.value(MERGES).is_some() {
            return self.merges();
        }
        let scores = self.file.f32s_opt(SCORES)?;
        let scores = scores.ok_or_else(|| self.file.key_error(SCORES, "not in the file, and model llama needs it"))?;
        same_length(self.file, SCORES, scores.len(), self.tokens.len())?;
        let token = |id: usize| spm::Token { text: &self.tokens[id], score: scores[id], normal: self.kind(id) == NORMAL };
        let tokens: Vec<spm::Token<'_>> = (0..self.tokens.len()).map(token).collect();
        Ok(spm::merges(&tokens))
    }

    /// SentencePiece's BPE: spaces are `▁`, one goes before the text, and characters without a token are bytes.
    fn sentence_piece(&self) -> Result<(Tokenizer, bool), TextError> {
        let mut builder = self.builder(self.sentence_merges()?)?.byte_fallback(true).fuse_unk(true);
        let unknown = self.special_id("unknown")?.unwrap_or(0);
        if let Some(token) = self.tokens.get(unknown as usize) {
            builder = builder.unk_token(token.clone());
        }
        let mut t = Tokenizer::new(builder.build().map_err(|e| self.file.key_error(TOKENS, e.to_string()))?);
        let prefix = self.file.bool_opt("tokenizer.ggml.add_space_prefix")?.unwrap_or(true);
        let spaces = json!({"type": "Replace", "pattern": {"String": " "}, "content": "▁"});
        let mut normalizers = vec![spaces];
        let mut decoders =
            vec![json!({"type": "Replace", "pattern": {"String": "▁"}, "content": " "}), json!({"type": "ByteFallback"}), json!({"type": "Fuse"})];
        if prefix {
            normalizers.insert(0, json!({"type": "Prepend", "prepend": "▁"}));
            decoders.push(json!({"type": "Strip", "content": " ", "start": 1, "stop": 0}));
        }
        let normalizer = json!({"type": "Sequence", "normalizers": normalizers});
        t.with_normalizer(Some(part::<NormalizerWrapper>(normalizer)?)).map_err(encode)?;
        let decoder = json!({"type": "Sequence", "decoders": decoders});
        t.with_decoder(Some(part::<DecoderWrapper>(decoder)?));
        Ok((t, true))
    }

    /// Control tokens are special; user-defined ones are matched whole but are text.
    fn add_special(&self, tokenizer: &mut Tokenizer) -> Result<(), TextError> {
        let added = self.tokens.iter().enumerate().filter_map(|(id, text)| {
            let kind = self.kind(id);
            matches!(kind, CONTROL | USER_DEFINED).then(|| AddedToken::from(text.as_str(), kind == CONTROL).normalized(false))
        });
        tokenizer.add_tokens(added.collect::<Vec<_>>()).map_err(encode)?;
        Ok(())
    }

    /// BOS before and EOS after a plain prompt, if the model wants them.
    fn add_around(&self, tokenizer: &mut Tokenizer, add_bos: bool) -> Result<(), TextError> {
        let (mut single, mut special) = (vec![json!({"Sequence": {"id": "A", "type_id": 0}})], Map::new());
        for (name, default) in [("bos", add_bos), ("eos", false)] {
            let asked = self.file.bool_opt(&format!("tokenizer.ggml.add_{name}_token"))?;
            let id = self.special_id(name)?;
            if asked == Some(true) && id.is_none() {
                let reason = format!("not in the file, and add_{name}_token asks for it");
                return Err(self.file.key_error(&format!("tokenizer.ggml.{name}_token_id"), reason).into());
            }
            if let Some(id) = id.filter(|_| asked.unwrap_or(default)) {
                let text = &self.tokens[id as usize];
                let at = if name == "bos" { 0 } else { single.len() };
                single.insert(at, json!({"SpecialToken": {"id": text, "type_id": 0}}));
                special.insert(text.clone(), json!({"id": text, "ids": [id], "tokens": [text]}));
            }
        }
        if special.is_empty() {
            return Ok(());
        }
        let pair = json!([{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}]);
        let template = json!({"type": "TemplateProcessing", "single": single, "pair": pair, "special_tokens": special});
        tokenizer.with_post_processor(Some(part::<PostProcessorWrapper>(template)?));
        Ok(())
    }

    /// The id under `tokenizer.ggml.<name>_token_id`, checked against the vocabulary.
    fn special_id(&self, name: &str) -> Result<Option<u32>, GgufError> {
        let key = format!("tokenizer.ggml.{name}_token_id");
        let Some(id) = self.file.u32_opt(&key)? else {
            return Ok(None);
        };
        if id as usize >= self.tokens.len() {
            let reason = format!("is {id}, must be below {}", self.tokens.len());
            return Err(self.file.key_error(&key, reason));
        }
        Ok(Some(id))
    }

    /// The special tokens' texts, by the names that templates use.
    fn specials(&self) -> Result<Map<String, Value>, GgufError> {
        let mut out = Map::new();
        for (name, variable) in [("bos", "bos_token"), ("eos", "eos_token"), ("unknown", "unk_token"), ("padding", "pad_token")] {
            if let Some(id) = self.special_id(name)? {
                out.insert(variable.into(), self.tokens[id as usize].as_str().into());
            }
        }
        Ok(out)
    }
}

/// The template, and those that the file lists by name besides.
fn templates(file: &File) -> Result<Vec<(String, String)>, GgufError> {
    let mut out = Vec::new();
    if let Some(source) = file.str_opt(TEMPLATE)? {
        out.push((DEFAULT.to_owned(), source.to_owned()));
    }
    for name in file.strings_opt("tokenizer.chat_templates")?.unwrap_or_default() {
        let source = file.str(&format!("{TEMPLATE}.{name}"))?;
        out.push((name.clone(), source.to_owned()));
    }
    Ok(out)
}

fn same_length(file: &File, key: &str, got: usize, want: usize) -> Result<(), GgufError> {
    if got == want {
        return Ok(());
    }
    Err(file.key_error(key, format!("has {got} entries, must have {want}, as {TOKENS} has")))
}

/// A part of a tokenizer from its form in tokenizer.json.
fn part<T: DeserializeOwned>(json: Value) -> Result<T, TextError> {
    serde_json::from_value(json).map_err(|e| TextError::Encode(e.to_string()))
}

fn encode(e: tokenizers::Error) -> TextError {
    TextError::Encode(e.to_string())
}
