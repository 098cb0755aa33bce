//! Sets up what a clone needs before it can build and serve: `setup native` lays MLX where Cargo finds it (Linux),
//! `setup model` fetches the default model. Both do nothing that is already done, and say what they are doing.

mod backend;
mod bindings;
mod blas;
mod hold;
mod mlxc;
mod model;
mod native;
mod place;
mod run;
mod store;
mod wheels;

use std::process::ExitCode;

fn main() -> ExitCode {
    let task = std::env::args().nth(1);
    let done = match task.as_deref() {
        Some("native") => native::lay(),
        Some("model") => model::fetch(),
        _ => Err("usage: setup native | setup model".to_owned()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("setup: {why}");
            ExitCode::from(2)
        }
    }
}
