//! What a model folder's config.json says of the llama line of families, checked field by field.
//!
//! Source of the meanings: mlx-lm's `models/{llama,qwen2,qwen3}.py` (ModelArgs) and Hugging Face's config classes.

use crate::engine::EngineError;
use crate::plain::{self, one_line};
use crate::rope;
use kv::{Elements, Geometry, Layer, Span};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
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
const LAYERS_MAX: u64 = 10_000;

/// Far above any axis of a weight, and low enough for products of two and sums of a few to stay far from overflow.
const SIZE_MAX: u64 = 1 << 24;

/// Positions are counted in 32 bits.
const POSITIONS_MAX: u64 = i32::MAX as u64;

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
    pub modules: BTreeMap<String, Option<Bits>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bits {
    pub bits: usize,
    pub group: usize,
}

impl Quant {
    /// How the module at `path` is quantised.
    pub fn of(&self, path: &str) -> Option<Bits> {
        self.modules.get(path).copied().unwrap_or(Some(self.default))
    }
}

/// Reads fields of one JSON object, and says which file, field and values it wanted.
struct Fields<'a> {
    file: &'a Path,
    map: &'a Map<String, Value>,
    within: String,
}

impl<'a> Fields<'a> {
    fn bad(&self, field: &str, why: &str) -> EngineError {
        EngineError::Load { file: self.file.to_owned(), reason: one_line(&format!("{}{field}: {why}", self.within)) }
    }

    fn given(&self, field: &str) -> Option<&'a Value> {
        self.map.get(field).filter(|v| !v.is_null())
    }

    fn count(&self, field: &str, allowed: RangeInclusive<u64>) -> Result<Option<usize>, EngineError> {
        let fits = |v: &Value| v.as_u64().filter(|n| allowed.contains(n)).and_then(|n| usize::try_from(n).ok());
        let Some(v) = self.given(field) else { return Ok(None) };
        let wrong = || self.bad(field, &format!("{v} is not a whole number of {} to {}", allowed.start(), allowed.end()));
        fits(v).map(Some).ok_or_else(wrong)
    }

    fn size(&self, field: &str) -> Result<Option<usize>, EngineError> {
        self.count(field, 1..=SIZE_MAX)
    }

    fn need(&self, field: &str, max: u64) -> Result<usize, EngineError> {
        self.count(field, 1..=max)?.ok_or_else(|| self.bad(field, &format!("missing; a whole number of 1 to {max} is needed")))
    }

    fn number(&self, field: &str) -> Result<Option<f32>, EngineError> {
        let Some(v) = self.given(field) else { return Ok(None) };
        // Finite in the type that it is computed in.
        let n = v.as_f64().map(|n| n as f32).filter(|n| n.is_finite() && *n >= 0.0);
        n.map(Some).ok_or_else(|| self.bad(field, &format!("{v} is not a number of 0 or more")))
    }

    fn positive(&self, field: &str) -> Result<Option<f32>, EngineError> {
        match self.number(field)? {
            Some(n) if !n.is_normal() => Err(self.bad(field, "must be above 0")),
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

    fn object(&self, field: &str) -> Result<Option<Fields<'a>>, EngineError> {
        let Some(v) = self.given(field) else { return Ok(None) };
        let map = v.as_object().ok_or_else(|| self.bad(field, "is not an object"))?;
        Ok(Some(Fields { file: self.file, map, within: format!("{}{field}.", self.within) }))
    }
}

impl Config {
    /// Reads `config.json` of a model folder.
    pub fn from_dir(dir: &Path) -> Result<Config, EngineError> {
        let file = dir.join("config.json");
        let bad = |reason: String| EngineError::Load { file: file.clone(), reason: one_line(&reason) };
        let text = plain::read(&file, BYTES_MAX).map_err(|e| bad(e.to_string()))?;
        let value: Value = serde_json::from_str(&text).map_err(|e| bad(format!("is not JSON: {e}")))?;
        let map = value.as_object().ok_or_else(|| bad("is not a JSON object".to_owned()))?;
        Config::from_json(&file, map)
    }

    /// Checks one object; `file` is only for messages.
    pub fn from_json(file: &Path, map: &Map<String, Value>) -> Result<Config, EngineError> {
        let f = Fields { file, map, within: String::new() };
        let kind = f.text("model_type")?.ok_or_else(|| f.bad("model_type", &allowed("missing")))?;
        let family = FAMILIES.iter().find(|(n, _)| *n == kind).map(|(_, family)| *family);
        let family = family.ok_or_else(|| f.bad("model_type", &allowed(&format!("\"{kind}\" is an unknown architecture"))))?;
        if let Some(act) = f.text("hidden_act")?.filter(|a| *a != "silu" && *a != "swish") {
            return Err(f.bad("hidden_act", &format!("\"{act}\" is not served: silu is")));
        }
        let (hidden, heads, layers) = (f.need("hidden_size", SIZE_MAX)?, f.need("num_attention_heads", SIZE_MAX)?, f.need("num_hidden_layers", LAYERS_MAX)?);
        let kv_heads = f.size("num_key_value_heads")?.unwrap_or(heads);
        if heads % kv_heads != 0 {
            return Err(f.bad("num_key_value_heads", &format!("{kv_heads} does not divide num_attention_heads, {heads}")));
        }
        let head_dim = f.size("head_dim")?.unwrap_or(hidden / heads);
        if head_dim == 0 || head_dim % 2 != 0 {
            return Err(f.bad("head_dim", &format!("{head_dim} is not an even number above 0")));
        }
        if (heads * head_dim) as u64 > SIZE_MAX {
            return Err(f.bad("head_dim", &format!("{head_dim} times num_attention_heads, {heads}, is more than {SIZE_MAX}")));
        }
        let context = f.count("max_position_embeddings", 1..=POSITIONS_MAX)?.unwrap_or(2048);
        let attention_bias = f.flag("attention_bias")?.unwrap_or(false);
        Ok(Config {
            family,
            hidden,
            layers,
            intermediate: f.need("intermediate_size", SIZE_MAX)?,
            heads,
            kv_heads,
            head_dim,
            norm_eps: f.positive("rms_norm_eps")?.unwrap_or(1e-6),
            vocab: f.need("vocab_size", SIZE_MAX)?,
            context,
            tied: f.flag("tie_word_embeddings")?,
            qkv_bias: if family == Family::Qwen2 { true } else { attention_bias },
            o_bias: family != Family::Qwen2 && attention_bias,
            mlp_bias: f.flag("mlp_bias")?.unwrap_or(false),
            rope: rope(&f, head_dim, context)?,
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
        let elements = Elements::Dense { bytes: element_bytes };
        let layers = self.windows.iter().map(|window| Layer { span: span(window), kv_heads, head_dim, elements }).collect();
        Geometry::new(layers, kv::BLOCK_TOKENS).expect("a checked config has layers, and each has K and V")
    }

    /// Most bytes that a step needs beside weights and pool: activations of `tokens` tokens, logits of `rows` rows, and keys and
    /// values gathered in one layer: of `rows` rows of `context` positions if `gathers`, together with every token's scores, else of
    /// one, a prompt's, where a kernel reads decode rows' keys in the pool and MLX's attention never writes scores down.
    pub fn workspace_bytes(&self, tokens: u32, rows: u32, context: u32, gathers: bool) -> u64 {
        let activations = u64::from(tokens) * (8 * self.hidden + 4 * self.intermediate + 4 * self.heads * self.head_dim) as u64 * 4;
        let gathering = if gathers { rows } else { 1 };
        let gathered = 4 * u64::from(context) * u64::from(gathering) * (self.kv_heads * self.head_dim) as u64 * 4;
        let scores = if gathers { 2 * u64::from(tokens) * u64::from(context) * self.heads as u64 * 4 } else { 0 };
        activations + gathered + scores + 4 * u64::from(rows) * self.vocab as u64 * 4
    }
}

fn allowed(what: &str) -> String {
    let names: Vec<&str> = FAMILIES.iter().map(|(n, _)| *n).collect();
    format!("{what}; served are {}", names.join(", "))
}

/// `rope_theta` and `rope_scaling`, or both in `rope_parameters` as newer files have them.
fn rope(f: &Fields, head_dim: usize, context: usize) -> Result<RopeConfig, EngineError> {
    let newer = f.object("rope_parameters")?;
    let at = newer.as_ref().filter(|n| n.given("rope_theta").is_some()).unwrap_or(f);
    let theta = at.positive("rope_theta")?.unwrap_or(10_000.0);
    // Its powers are the wavelengths, and yarn divides by its logarithm.
    if theta <= 1.0 {
        return Err(at.bad("rope_theta", &format!("{theta} is not a number above 1")));
    }
    let parts = f.object("rope_scaling")?.or(newer);
    let rope = RopeConfig { theta, traditional: f.flag("rope_traditional")?.unwrap_or(false), scaling: parts.as_ref().map_or(Ok(Scaling::None), scaling)? };
    if !rope::fits(&rope, head_dim, context) {
        let at = parts.filter(|_| rope.scaling != Scaling::None);
        let (at, field) = at.as_ref().map_or((f, "rope_theta"), |p| (p, "factor"));
        return Err(at.bad(field, &format!("gives angles that 32-bit floats cannot hold, within max_position_embeddings of {context}")));
    }
    Ok(rope)
}

fn scaling(s: &Fields) -> Result<Scaling, EngineError> {
    let kind = match s.text("type")? {
        Some(k) => k,
        None => s.text("rope_type")?.unwrap_or("default"),
    };
    let need = |field: &str| s.positive(field)?.ok_or_else(|| s.bad(field, "missing; a number above 0 is needed"));
    let original = |default: f32| Ok::<f32, EngineError>(s.positive("original_max_position_embeddings")?.unwrap_or(default));
    Ok(match kind {
        "default" => Scaling::None,
        "linear" => Scaling::Linear { factor: need("factor")? },
        "llama3" => {
            let (low, high) = (s.positive("low_freq_factor")?.unwrap_or(1.0), s.positive("high_freq_factor")?.unwrap_or(4.0));
            if high <= low {
                return Err(s.bad("high_freq_factor", &format!("{high} is not above low_freq_factor, {low}")));
            }
            Scaling::Llama3 { factor: need("factor")?, low, high, original: original(8192.0)? }
        }
        "yarn" => {
            let (beta_fast, beta_slow) = (s.positive("beta_fast")?.unwrap_or(32.0), s.positive("beta_slow")?.unwrap_or(1.0));
            if beta_fast <= beta_slow {
                return Err(s.bad("beta_fast", &format!("{beta_fast} is not above beta_slow, {beta_slow}")));
            }
            Scaling::Yarn {
                factor: need("factor")?,
                original: original(4096.0)?,
                beta_fast,
                beta_slow,
                mscale: s.number("mscale")?.unwrap_or(1.0),
                mscale_all_dim: s.number("mscale_all_dim")?.unwrap_or(0.0),
            }
        }
        other => return Err(s.bad("type", &format!("\"{other}\" is not served: default, linear, llama3 and yarn are"))),
    })
}

/// A window applies to the layers that `layer_types` calls sliding; without that list, to all when the family says so.
fn windows(f: &Fields, layers: usize) -> Result<Vec<Option<usize>>, EngineError> {
    let window = f.count("sliding_window", 1..=POSITIONS_MAX)?;
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
    let q = match f.object("quantization")? {
        Some(q) => q,
        None => match f.object("quantization_config")? {
            // Other tools' own schemes carry this name; MLX's has its two numbers.
            Some(q) if q.given("quant_method").is_none() => q,
            Some(q) => return Err(q.bad("quant_method", "is not served: MLX affine quantisation is")),
            None => return Ok(None),
        },
    };
    let default = bits(&q, 64, 4)?;
    let mut modules = BTreeMap::new();
    for (path, v) in q.map.iter().filter(|(k, _)| !["group_size", "bits", "mode"].contains(&k.as_str())) {
        let module = match v {
            Value::Bool(false) => None,
            Value::Bool(true) => Some(default),
            Value::Object(map) => Some(bits(&Fields { file: q.file, map, within: format!("{}{path}.", q.within) }, default.group, default.bits)?),
            // Notes of converters (a method's name, say) describe no module.
            _ => continue,
        };
        modules.insert(path.clone(), module);
    }
    Ok(Some(Quant { default, modules }))
}

fn bits(q: &Fields, group: usize, bits: usize) -> Result<Bits, EngineError> {
    if let Some(mode) = q.text("mode")?.filter(|m| *m != "affine") {
        return Err(q.bad("mode", &format!("\"{mode}\" is not served: affine is")));
    }
    Ok(Bits { bits: q.count("bits", 2..=8)?.unwrap_or(bits), group: q.size("group_size")?.unwrap_or(group) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn base() -> Value {
        json!({"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "intermediate_size": 128, "num_attention_heads": 4, "vocab_size": 512})
    }

    /// The config with `fields` put over it; null takes one away.
    fn with(fields: &Value) -> Result<Config, String> {
        let mut config = base();
        for (k, v) in fields.as_object().unwrap() {
            config[k] = v.clone();
        }
        Config::from_json(Path::new("config.json"), config.as_object().unwrap()).map_err(|e| e.to_string())
    }

    fn check(fields: Value, want: &str) {
        let error = with(&fields).unwrap_err();
        assert!(error.starts_with(&format!("config.json: {want}")), "{fields}: {error} should begin with {want}");
    }

    #[test]
    fn sizes_that_no_model_has_are_named() {
        for field in ["hidden_size", "intermediate_size", "num_attention_heads", "num_key_value_heads", "vocab_size", "head_dim"] {
            for value in [json!(0), json!(-1), json!((1 << 24) + 1), json!(u64::MAX), json!(1e30), json!(2.5), json!("64"), json!([64])] {
                check(json!({field: value}), &format!("{field}: {value} is not a whole number of 1 to 16777216"));
            }
        }
        for field in ["hidden_size", "num_hidden_layers", "intermediate_size", "num_attention_heads", "vocab_size"] {
            check(json!({field: null}), &format!("{field}: missing; a whole number of 1 to "));
        }
        check(json!({"num_hidden_layers": 10_001}), "num_hidden_layers: 10001 is not a whole number of 1 to 10000");
        check(json!({"max_position_embeddings": 1u64 << 31}), "max_position_embeddings: 2147483648 is not a whole number of 1 to 2147483647");
        check(json!({"model_type": "mistral", "sliding_window": 1u64 << 40}), "sliding_window: 1099511627776 is not");
        check(json!({"head_dim": 1 << 23}), "head_dim: 8388608 times num_attention_heads, 4, is more than 16777216");
        check(json!({"head_dim": 15}), "head_dim: 15 is not an even number");
        check(json!({"num_attention_heads": 100}), "head_dim: 0 is not an even number");
        check(json!({"num_key_value_heads": 3}), "num_key_value_heads: 3 does not divide");
        check(json!({"vocab_size": "a\nb"}), "vocab_size: \"a\\nb\" is not");
        check(json!({"rms_norm_eps": 1e-60}), "rms_norm_eps: must be above 0");
        assert!(with(&json!({"vocab_size": "x".repeat(1 << 20)})).unwrap_err().len() < 1000);
    }

    #[test]
    fn rope_parameters_that_give_no_angles_are_named() {
        for theta in [json!(1), json!(1.0), json!(0.5)] {
            for rope in [json!(null), json!({"type": "yarn", "factor": 4.0}), json!({"type": "linear", "factor": 4.0})] {
                check(json!({"rope_theta": theta, "rope_scaling": rope}), "rope_theta: ");
            }
            check(json!({"rope_parameters": {"rope_theta": theta}}), "rope_parameters.rope_theta: ");
        }
        check(json!({"rope_theta": 1, "rope_scaling": {"type": "yarn", "factor": 4.0}}), "rope_theta: 1 is not a number above 1");
        for (theta, want) in [(json!(0), "must be above 0"), (json!(-5), "-5 is not"), (json!(1e300), "1e+300 is not"), (json!("1"), "\"1\" is not")] {
            check(json!({"rope_theta": theta}), &format!("rope_theta: {want}"));
        }
        for kind in ["linear", "llama3", "yarn"] {
            let scaling = |field: &str, value: Value| {
                let mut s = json!({"rope_type": kind, "factor": 8.0, "original_max_position_embeddings": 64});
                s[field] = value;
                json!({"rope_scaling": s})
            };
            for (value, want) in [(json!(0), "must be above 0"), (json!(-1), "-1 is not"), (json!(null), "missing"), (json!(1e300), "1e+300 is not")] {
                check(scaling("factor", value), &format!("rope_scaling.factor: {want}"));
            }
            check(scaling("factor", json!(1e-37)), "rope_scaling.factor: gives angles");
            if kind != "linear" {
                check(scaling("factor", json!(3e38)), "rope_scaling.factor: gives angles");
                check(scaling("original_max_position_embeddings", json!(0)), "rope_scaling.original_max_position_embeddings: must be above 0");
            }
        }
        let llama3 = |low: f64, high: f64| json!({"rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": low, "high_freq_factor": high}});
        check(llama3(4.0, 4.0), "rope_scaling.high_freq_factor: 4 is not above low_freq_factor, 4");
        check(llama3(4.0, 1.0), "rope_scaling.high_freq_factor: 1 is not above low_freq_factor, 4");
        check(llama3(0.0, 1.0), "rope_scaling.low_freq_factor: must be above 0");
        let yarn = |fast: f64, slow: f64| json!({"rope_parameters": {"rope_type": "yarn", "factor": 8.0, "beta_fast": fast, "beta_slow": slow}});
        check(yarn(1.0, 1.0), "rope_parameters.beta_fast: 1 is not above beta_slow, 1");
        check(yarn(1.0, 32.0), "rope_parameters.beta_fast: 1 is not above beta_slow, 32");
        check(yarn(1.0, 0.0), "rope_parameters.beta_slow: must be above 0");
        check(json!({"rope_scaling": {"type": "yarn", "factor": 1e30, "mscale": 3e38}}), "rope_scaling.factor: gives angles");
    }

    #[test]
    fn rope_parameters_in_use_are_taken() {
        let scaling = |s: Value| with(&json!({"rope_theta": 1e6, "rope_scaling": s, "max_position_embeddings": 131_072})).unwrap().rope.scaling;
        assert_eq!(scaling(json!({"type": "linear", "factor": 0.5})), Scaling::Linear { factor: 0.5 });
        let llama3 = json!({"rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192});
        assert_eq!(scaling(llama3), Scaling::Llama3 { factor: 32.0, low: 1.0, high: 4.0, original: 8192.0 });
        let yarn = Scaling::Yarn { factor: 4.0, original: 32768.0, beta_fast: 32.0, beta_slow: 1.0, mscale: 1.0, mscale_all_dim: 0.0 };
        assert_eq!(scaling(json!({"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768})), yarn);
    }

    #[test]
    fn a_modules_own_bits_are_named_with_the_module() {
        let quant = |module: Value| json!({"quantization": {"group_size": 64, "bits": 4, "lm_head": module}});
        check(quant(json!({"bits": 9})), "quantization.lm_head.bits: 9 is not a whole number of 2 to 8");
        check(quant(json!({"bits": 1})), "quantization.lm_head.bits: 1 is not a whole number of 2 to 8");
        check(quant(json!({"group_size": 0})), "quantization.lm_head.group_size: 0 is not");
        check(json!({"quantization": {"group_size": u64::MAX}}), "quantization.group_size: ");
        let q = with(&quant(json!({"bits": 8}))).unwrap().quant.unwrap();
        assert_eq!((q.of("lm_head"), q.of("model.embed_tokens")), (Some(Bits { bits: 8, group: 64 }), Some(Bits { bits: 4, group: 64 })));
    }

    /// Whatever stands in a field, the answer is a config whose angles are numbers, or one line that names the file.
    #[test]
    fn a_damaged_config_is_one_line() {
        let mut whole = base();
        let more = json!({
            "num_key_value_heads": 2, "head_dim": 16, "rms_norm_eps": 1e-5, "max_position_embeddings": 4096, "rope_theta": 1e4, "sliding_window": 64,
            "layer_types": ["full_attention", "sliding_attention"], "tie_word_embeddings": true, "attention_bias": false,
            "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "beta_fast": 32, "beta_slow": 1, "original_max_position_embeddings": 64, "mscale": 1.0},
            "quantization": {"group_size": 32, "bits": 4, "lm_head": {"bits": 8, "group_size": 64}},
        });
        whole.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let (mut taken, mut refused) = (0, 0);
        for kind in ["yarn", "llama3", "linear"] {
            whole["rope_scaling"]["rope_type"] = json!(kind);
            for json in crate::weights::tests::damaged(&whole).iter().filter_map(Value::as_object) {
                match Config::from_json(Path::new("config.json"), json) {
                    Ok(c) => {
                        assert!(rope::fits(&c.rope, c.head_dim, c.context), "{json:?}");
                        taken += 1;
                    }
                    Err(e) => {
                        let line = e.to_string();
                        assert!(line.starts_with("config.json: ") && !line.contains('\n') && line.len() < 1000, "{line}");
                        refused += 1;
                    }
                }
            }
        }
        assert!(taken > 100 && refused > 100, "{taken} taken, {refused} refused");
    }
}
