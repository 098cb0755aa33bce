//! What a model folder's config.json says of the llama line of families, checked field by field.
//!
//! Source of the meanings: mlx-lm's `models/{llama,qwen2,qwen3}.py` (ModelArgs) and Hugging Face's config classes.

use crate::engine::EngineError;
use kv::{Geometry, Layer, Span};
use serde_json::{Map, Value};
use std::path::Path;

/// The members of the line differ only in biases and in norms on q and k.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    Llama,
    Qwen2,
    Qwen3,
}

const FAMILIES: [(&str, Family); 4] = [("llama", Family::Llama), ("mistral", Family::Llama), ("qwen2", Family::Qwen2), ("qwen3", Family::Qwen3)];

/// Far above any config.json.
const BYTES_MAX: u64 = 16 << 20;

/// Far above any model; a number of layers is reserved for before the first tensor is looked for.
const LAYERS_MAX: usize = 10_000;

#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    pub family: Family,
    pub hidden: usize,
    pub layers: usize,
    pub intermediate: usize,
    pub heads: usize,
    pub kv_heads: usize,
    pub head_dim: usize,
    pub norm_eps: f32,
    pub vocab: usize,
    /// Positions the model was made for.
    pub context: usize,
    /// None: not said, so the presence of a head's tensor decides.
    pub tied: Option<bool>,
    /// On q, k and v; and on the output projection.
    pub qkv_bias: bool,
    pub o_bias: bool,
    pub mlp_bias: bool,
    pub rope: RopeConfig,
    /// A layer's window in tokens, or None for full attention; one entry a layer.
    pub windows: Vec<Option<usize>>,
    pub quant: Option<Quant>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct RopeConfig {
    pub theta: f32,
    /// Pairs (2i, 2i+1) rather than (i, i + head_dim/2).
    pub traditional: bool,
    pub scaling: Scaling,
}

/// How positions beyond the original context are brought in.
#[derive(Debug, Clone, PartialEq)]
pub enum Scaling {
    None,
    Linear {
        factor: f32,
    },
    Llama3 {
        factor: f32,
        low: f32,
        high: f32,
        original: f32,
    },
    Yarn {
        factor: f32,
        original: f32,
        beta_fast: f32,
        beta_slow: f32,
        mscale: f32,
        mscale_all_dim: f32,
    },
    /// Each pair's wavelength times its own factor, as GGUF's tensor `rope_freqs` has them.
    Factors(Vec<f32>),
}

/// MLX affine quantisation: a default, and what single modules say otherwise (None: kept dense).
#[derive(Debug, Clone, PartialEq)]
pub struct Quant {
    pub default: Bits,
    pub modules: Vec<(String, Option<Bits>)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bits {
    pub bits: usize,
    pub group: usize,
}

impl Quant {
    /// How the module at `path` is quantised.
    pub fn of(&self, path: &str) -> Option<Bits> {
        self.modules.iter().find(|(p, _)| p == path).map_or(Some(self.default), |(_, b)| *b)
    }
}

/// Reads fields of one JSON object, and says which file, field and values it wanted.
struct Fields<'a> {
    file: &'a Path,
    map: &'a Map<String, Value>,
    within: &'a str,
}

impl<'a> Fields<'a> {
    fn bad(&self, field: &str, why: &str) -> EngineError {
        EngineError::Load { file: self.file.to_owned(), reason: format!("{}{field}: {why}", self.within) }
    }

    fn given(&self, field: &str) -> Option<&'a Value> {
        self.map.get(field).filter(|v| !v.is_null())
    }

    fn count(&self, field: &str) -> Result<Option<usize>, EngineError> {
        // The ceiling keeps every product of two sizes far from overflow.
        let fits = |v: &Value| v.as_u64().filter(|n| (1..=1 << 31).contains(n)).map(|n| n as usize);
        let Some(v) = self.given(field) else { return Ok(None) };
        fits(v).map(Some).ok_or_else(|| self.bad(field, &format!("{v} is not a whole number of 1 or more")))
    }

    fn need(&self, field: &str) -> Result<usize, EngineError> {
        self.count(field)?.ok_or_else(|| self.bad(field, "missing; a whole number of 1 or more is needed"))
    }

    fn number(&self, field: &str) -> Result<Option<f32>, EngineError> {
        let Some(v) = self.given(field) else { return Ok(None) };
        let n = v.as_f64().filter(|n| n.is_finite() && *n >= 0.0);
        n.map(|n| Some(n as f32)).ok_or_else(|| self.bad(field, &format!("{v} is not a number of 0 or more")))
    }

    fn positive(&self, field: &str) -> Result<Option<f32>, EngineError> {
        match self.number(field)? {
            Some(n) if n <= 0.0 => Err(self.bad(field, "must be above 0")),
            n => Ok(n),
        }
    }

    fn flag(&self, field: &str) -> Result<Option<bool>, EngineError> {
        let Some(v) = self.given(field) else { return Ok(None) };
        v.as_bool().map(Some).ok_or_else(|| self.bad(field, &format!("{v} is neither true nor false")))
    }

    fn text(&self, field: &str) -> Result<Option<&'a str>, EngineError> {
        let Some(v) = self.given(field) else { return Ok(None) };
        v.as_str().map(Some).ok_or_else(|| self.bad(field, &format!("{v} is not a string")))
    }

    fn object(&self, field: &str, within: &'a str) -> Result<Option<Fields<'a>>, EngineError> {
        let Some(v) = self.given(field) else { return Ok(None) };
        let map = v.as_object().ok_or_else(|| self.bad(field, "is not an object"))?;
        Ok(Some(Fields { file: self.file, map, within }))
    }
}

impl Config {
    /// Reads `config.json` of a model folder.
    pub fn from_dir(dir: &Path) -> Result<Config, EngineError> {
        let file = dir.join("config.json");
        let bad = |reason: String| EngineError::Load { file: file.clone(), reason };
        let meta = std::fs::metadata(&file).map_err(|e| bad(format!("cannot be read: {e}")))?;
        if !meta.is_file() || meta.len() > BYTES_MAX {
            return Err(bad(format!("is not a plain file of at most {BYTES_MAX} bytes")));
        }
        let text = std::fs::read_to_string(&file).map_err(|e| bad(format!("cannot be read: {e}")))?;
        let value: Value = serde_json::from_str(&text).map_err(|e| bad(format!("is not JSON: {e}")))?;
        let map = value.as_object().ok_or_else(|| bad("is not a JSON object".to_owned()))?;
        Config::from_json(&file, map)
    }

    /// Checks one object; `file` is only for messages.
    pub fn from_json(file: &Path, map: &Map<String, Value>) -> Result<Config, EngineError> {
        let f = Fields { file, map, within: "" };
        let kind = f.text("model_type")?.ok_or_else(|| f.bad("model_type", &allowed("missing")))?;
        let family = FAMILIES.iter().find(|(n, _)| *n == kind).map(|(_, family)| *family);
        let family = family.ok_or_else(|| f.bad("model_type", &allowed(&format!("\"{kind}\" is an unknown architecture"))))?;
        if let Some(act) = f.text("hidden_act")?.filter(|a| *a != "silu" && *a != "swish") {
            return Err(f.bad("hidden_act", &format!("\"{act}\" is not served: silu is")));
        }
        let (hidden, heads, layers) = (f.need("hidden_size")?, f.need("num_attention_heads")?, f.need("num_hidden_layers")?);
        if layers > LAYERS_MAX {
            return Err(f.bad("num_hidden_layers", &format!("{layers} is more than {LAYERS_MAX}")));
        }
        let head_dim = f.count("head_dim")?.unwrap_or(hidden / heads);
        let kv_heads = f.count("num_key_value_heads")?.unwrap_or(heads);
        if heads % kv_heads != 0 {
            return Err(f.bad("num_key_value_heads", &format!("{kv_heads} does not divide num_attention_heads, {heads}")));
        }
        if head_dim == 0 || head_dim % 2 != 0 {
            return Err(f.bad("head_dim", &format!("{head_dim} is not an even number above 0")));
        }
        let attention_bias = f.flag("attention_bias")?.unwrap_or(false);
        Ok(Config {
            family,
            hidden,
            layers,
            intermediate: f.need("intermediate_size")?,
            heads,
            kv_heads,
            head_dim,
            norm_eps: f.positive("rms_norm_eps")?.unwrap_or(1e-6),
            vocab: f.need("vocab_size")?,
            context: f.count("max_position_embeddings")?.unwrap_or(2048),
            tied: f.flag("tie_word_embeddings")?,
            qkv_bias: if family == Family::Qwen2 { true } else { attention_bias },
            o_bias: family != Family::Qwen2 && attention_bias,
            mlp_bias: f.flag("mlp_bias")?.unwrap_or(false),
            rope: rope(&f)?,
            windows: windows(&f, layers)?,
            quant: quant(&f)?,
        })
    }
}

/// What follows from the sizes alone.
impl Config {
    /// The KV memory of a model whose K and V are of elements of so many bytes.
    pub fn geometry(&self, element_bytes: u32) -> Geometry {
        let (kv_heads, head_dim) = (self.kv_heads as u32, self.head_dim as u32);
        let span = |window: &Option<usize>| window.map_or(Span::Full, |w| Span::Window(w as u32));
        let layers = self.windows.iter().map(|window| Layer { span: span(window), kv_heads, head_dim, element_bytes }).collect();
        Geometry::new(layers, kv::BLOCK_TOKENS).expect("a checked config has layers, and each has K and V")
    }

    /// Most bytes that a step needs beside weights and pool: activations of `tokens` tokens, keys and values gathered for
    /// `rows` rows of `context` positions in one layer, and logits of `rows` rows.
    pub fn workspace_bytes(&self, tokens: u32, rows: u32, context: u32) -> u64 {
        let activations = u64::from(tokens) * (8 * self.hidden + 4 * self.intermediate + 4 * self.heads * self.head_dim) as u64 * 4;
        let gathered = 4 * u64::from(context) * u64::from(rows) * (self.kv_heads * self.head_dim) as u64 * 4;
        activations + gathered + 4 * u64::from(rows) * self.vocab as u64 * 4
    }
}

fn allowed(what: &str) -> String {
    let names: Vec<&str> = FAMILIES.iter().map(|(n, _)| *n).collect();
    format!("{what}; served are {}", names.join(", "))
}

/// `rope_theta` and `rope_scaling`, or both in `rope_parameters` as newer files have them.
fn rope(f: &Fields) -> Result<RopeConfig, EngineError> {
    let newer = f.object("rope_parameters", "rope_parameters.")?;
    let theta = match &newer {
        Some(n) if n.given("rope_theta").is_some() => n.positive("rope_theta")?,
        _ => f.positive("rope_theta")?,
    };
    let scaling = match (f.object("rope_scaling", "rope_scaling.")?, newer) {
        (Some(s), _) | (None, Some(s)) => scaling(&s)?,
        (None, None) => Scaling::None,
    };
    Ok(RopeConfig { theta: theta.unwrap_or(10_000.0), traditional: f.flag("rope_traditional")?.unwrap_or(false), scaling })
}

fn scaling(s: &Fields) -> Result<Scaling, EngineError> {
    let kind = match s.text("type")? {
        Some(k) => k,
        None => s.text("rope_type")?.unwrap_or("default"),
    };
    let need = |field: &str| s.positive(field)?.ok_or_else(|| s.bad(field, "missing; a number above 0 is needed"));
    Ok(match kind {
        "default" => Scaling::None,
        "linear" => Scaling::Linear { factor: need("factor")? },
        "llama3" => Scaling::Llama3 {
            factor: need("factor")?,
            low: s.positive("low_freq_factor")?.unwrap_or(1.0),
            high: s.positive("high_freq_factor")?.unwrap_or(4.0),
            original: s.positive("original_max_position_embeddings")?.unwrap_or(8192.0),
        },
        "yarn" => Scaling::Yarn {
            factor: need("factor")?,
            original: s.positive("original_max_position_embeddings")?.unwrap_or(4096.0),
            beta_fast: s.positive("beta_fast")?.unwrap_or(32.0),
            beta_slow: s.positive("beta_slow")?.unwrap_or(1.0),
            mscale: s.number("mscale")?.unwrap_or(1.0),
            mscale_all_dim: s.number("mscale_all_dim")?.unwrap_or(0.0),
        },
        other => return Err(s.bad("type", &format!("\"{other}\" is not served: default, linear, llama3 and yarn are"))),
    })
}

/// A window applies to the layers that `layer_types` calls sliding; without that list, to all when the family says so.
fn windows(f: &Fields, layers: usize) -> Result<Vec<Option<usize>>, EngineError> {
    let window = f.count("sliding_window")?;
    let Some(types) = f.given("layer_types") else {
        // Mistral's first release windowed every layer; qwen2 and qwen3 carry the field switched off.
        let every = f.text("model_type")? == Some("mistral") || f.flag("use_sliding_window")? == Some(true);
        return Ok(vec![window.filter(|_| every); layers]);
    };
    let types = types.as_array().filter(|t| t.len() == layers);
    let types = types.ok_or_else(|| f.bad("layer_types", &format!("is not a list of {layers} names")))?;
    let one = |t: &Value| match (t.as_str(), window) {
        (Some("full_attention"), _) => Ok(None),
        (Some("sliding_attention"), Some(w)) => Ok(Some(w)),
        (Some("sliding_attention"), None) => Err(f.bad("sliding_window", "missing, and layer_types has sliding_attention")),
        _ => Err(f.bad("layer_types", &format!("{t} is not served: full_attention and sliding_attention are"))),
    };
    types.iter().map(one).collect()
}

fn quant(f: &Fields) -> Result<Option<Quant>, EngineError> {
    let q = match f.object("quantization", "quantization.")? {
        Some(q) => q,
        None => match f.object("quantization_config", "quantization_config.")? {
            // Other tools' own schemes carry this name; MLX's has its two numbers.
            Some(q) if q.given("quant_method").is_none() => q,
            Some(q) => return Err(q.bad("quant_method", "is not served: MLX affine quantisation is")),
            None => return Ok(None),
        },
    };
    let default = bits(&q, 64, 4)?;
    let mut modules = Vec::new();
    for (path, v) in q.map.iter().filter(|(k, _)| !["group_size", "bits", "mode"].contains(&k.as_str())) {
        match v {
            Value::Bool(false) => modules.push((path.clone(), None)),
            Value::Bool(true) => modules.push((path.clone(), Some(default))),
            Value::Object(map) => {
                modules.push((path.clone(), Some(bits(&Fields { file: q.file, map, within: "quantization.<module>." }, default.group, default.bits)?)))
            }
            // Notes of converters (a method's name, say) describe no module.
            _ => {}
        }
    }
    Ok(Some(Quant { default, modules }))
}

fn bits(q: &Fields, group: usize, bits: usize) -> Result<Bits, EngineError> {
    if let Some(mode) = q.text("mode")?.filter(|m| *m != "affine") {
        return Err(q.bad("mode", &format!("\"{mode}\" is not served: affine is")));
    }
    let got = Bits { bits: q.count("bits")?.unwrap_or(bits), group: q.count("group_size")?.unwrap_or(group) };
    if !(2..=8).contains(&got.bits) {
        return Err(q.bad("bits", &format!("{} is outside 2 to 8", got.bits)));
    }
    Ok(got)
}
