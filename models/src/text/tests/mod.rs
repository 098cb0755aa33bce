//! Tests of the whole room against what the reference implementations give (`testdata/make.py` writes it).

mod dir;
mod gguf;
mod template;
