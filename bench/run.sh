#!/usr/bin/env bash
# Compares coxswain with mlx-lm's own server, on the same model, weights, MLX and BLAS, with the same client.
#   usage: bench/run.sh COXSWAIN_BINARY [options of bench.py]        for example --write
# Makes what it needs first: the oracle's environment and the model (once, about two minutes).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/.." && pwd)
binary=${1:?usage: bench/run.sh COXSWAIN_BINARY [options]}
shift
"$root/oracle/setup.sh"
"$root/oracle/model.sh" "$root/target/oracle/smollm2-f32"
exec "$root/.venv/bin/python" "$here/bench.py" --coxswain "$binary" --model "$root/target/oracle/smollm2-f32" "$@"
