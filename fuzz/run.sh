#!/usr/bin/env bash
# Fuzzes the parsers, one after the other, each for so many seconds. usage: fuzz/run.sh [SECONDS] [TARGET...]
# Stops at the first input that panics, takes 10 seconds, or more memory than 2 GB; libFuzzer says where it kept that input.
set -euo pipefail
cd "$(dirname "$0")"
command -v cargo-fuzz >/dev/null || { echo "fuzz: cargo-fuzz is not installed (cargo install --locked cargo-fuzz)" >&2; exit 2; }
seconds=${1:-600}
shift || true
# libFuzzer's hooks are stable's own; cargo-fuzz asks for nightly all the same. There is no C of ours for a sanitizer to watch.
export RUSTC_BOOTSTRAP=1
# Inputs are not made longer than this: most are far shorter.
declare -A longest=([body]=16384 [dialect]=4096 [frame]=4096 [gguf]=16384 [safetensors]=8192 [template]=4096 [tokenizer]=16384)
for target in ${@:-frame safetensors dialect body gguf template tokenizer}; do
  echo "fuzz: $target, $seconds s"
  mkdir -p "corpus/$target"
  features=()
  [ "$target" = body ] && features=(--features api)
  cargo fuzz run --fuzz-dir . --sanitizer none "${features[@]}" "$target" "corpus/$target" "seeds/$target" -- \
    -max_total_time="$seconds" -rss_limit_mb=2048 -timeout=10 -max_len="${longest[$target]}" -print_final_stats=1
done
