//! Which model: what the command line names, or the default one where `make model` left it.

use models::gguf;
use models::text::Text;
use std::path::{Path, PathBuf};

/// The default model's file under `models/`, as `make model` writes it.
const DEFAULT: &str = "models/SmolLM2-135M-Instruct.Q4_1.gguf";

/// The path given as `asked`, or the default model's.
pub(crate) fn path(given: Option<&Path>, asked: &str) -> Result<PathBuf, String> {
    if let Some(path) = given {
        if path.exists() && !path.is_file() && !path.is_dir() {
            return Err(format!("{asked} {}: is neither a file nor a folder", path.display()));
        }
        return if path.exists() { Ok(path.to_owned()) } else { Err(format!("{asked} {}: there is no such file or folder", path.display())) };
    }
    let path = home()?.join(DEFAULT);
    if path.exists() { Ok(path) } else { Err(format!("the default model is not at {}: `make model` fetches it, or name another with {asked}", path.display())) }
}

/// `$COXSWAIN_HOME`, or `~/.cache/coxswain`.
fn home() -> Result<PathBuf, String> {
    let set = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    set("COXSWAIN_HOME")
        .or_else(|| set("HOME").map(|h| h.join(".cache/coxswain")))
        .ok_or_else(|| "neither COXSWAIN_HOME nor HOME is set, so there is no default model: name one".to_owned())
}

/// Tokenizer and chat template of the model at `path`. Opening a GGUF file also finds whether it is whole.
pub(crate) fn text(path: &Path) -> Result<Text, String> {
    text_or_hint(path, home().ok().map(|home| home.join(DEFAULT)).as_deref())
}

fn text_or_hint(path: &Path, default: Option<&Path>) -> Result<Text, String> {
    let text = if path.is_dir() { Text::from_dir(path) } else { gguf::File::open(path).map_err(Into::into).and_then(|file| Text::from_gguf(&file)) };
    let hint = if default == Some(path) { "; `make model` fetches the default model again" } else { "" };
    text.map_err(|e| format!("{e}{hint}"))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_default_model_says_what_brings_it_back() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a.gguf");
        std::fs::write(&file, b"GGUF").unwrap();
        let said = |default: Option<&Path>| text_or_hint(&file, default).err().unwrap();
        assert!(said(Some(&file)).contains("truncated") && said(Some(&file)).ends_with("; `make model` fetches the default model again"));
        assert!(!said(Some(dir.path())).contains("make model") && !said(None).contains("make model"));
    }
}
