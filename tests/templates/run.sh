#!/usr/bin/env bash
# Chat templates of the wild against jinja2: 70 templates, each with every conversation of conversations.py.
#
# usage: run.sh RENDER [--only WORD] [--verbose]      RENDER is the built models/examples/render.rs
#
# Needs python3 (3.11 or later) with pip, which fetches jinja2 as oracle/requirements.txt pins it, kept under target/templates. The
# templates (MIT) come from llama.cpp's copy in a source package and are kept under COXSWAIN_HOME. Nothing of either is in this tree.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
[ $# -ge 1 ] || { sed -n 's/^# usage: /usage: /p' "$0" >&2; exit 2; }
render=$1
shift

missing=()
[ -x "$render" ] || missing+=("$render: make templates builds it")
python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || missing+=("python3, 3.11 or later: apt-get install python3")
python3 -m pip --version >/dev/null 2>&1 || missing+=("pip: apt-get install python3-pip")
if [ ${#missing[@]} -gt 0 ]; then
  printf 'templates: missing: %s\n' "${missing[@]}" >&2
  exit 2
fi

target=${CARGO_TARGET_DIR:-$here/../../target}
mkdir -p "$target"
library=$(cd "$target" && pwd)/templates
pins=$(sed -n '/^jinja2==/,/[^\\]$/p; /^markupsafe==/,/[^\\]$/p' "$here/../../oracle/requirements.txt")
if [ "$(cat "$library/pins" 2>/dev/null || true)" != "$pins" ]; then
  rm -rf "$library"
  mkdir -p "$library"
  python3 -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps --target "$library/python" -r <(echo "$pins")
  # Written last: a fetch that was cut is made again.
  echo "$pins" > "$library/pins"
fi
folder=$(python3 "$here/fetch.py" "${COXSWAIN_HOME:-$HOME/.cache/coxswain}")
# The same clock on both sides, in the same zone.
TZ=UTC PYTHONPATH=$library/python exec python3 "$here/run.py" "$(realpath "$render")" "$folder" "$@"
