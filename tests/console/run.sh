#!/usr/bin/env bash
# The console in a real browser, before the real service with the default model.
#
# usage: run.sh BINARY [--screenshots DIR] [--only WORD] [--port N]
#
# Needs chromium (CHROMIUM names another one), node 20 or later, and npm, which fetches the library that drives the browser: one
# package, pinned with its hash in package-lock.json, kept under target/console. Everything that is started here is ended here.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
[ $# -ge 1 ] || { sed -n 's/^# usage: /usage: /p' "$0" >&2; exit 2; }
binary=$1
shift

missing=()
[ -x "$binary" ] || missing+=("$binary: make build")
chromium=${CHROMIUM:-$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)}
[ -n "$chromium" ] && [ -x "$chromium" ] || missing+=("chromium: apt-get install chromium")
if ! command -v node >/dev/null; then
  missing+=("node: apt-get install nodejs, or from its site (20 or later)")
elif [ "$(node -p 'process.versions.node.split(".")[0]')" -lt 20 ]; then
  missing+=("node 20 or later: this one is $(node --version)")
fi
command -v npm >/dev/null || missing+=("npm: apt-get install npm")
if [ ${#missing[@]} -gt 0 ]; then
  printf 'console test: missing: %s\n' "${missing[@]}" >&2
  exit 1
fi

library=${CARGO_TARGET_DIR:-$here/../../target}/console
mkdir -p "$library"
if ! cmp -s "$here/package-lock.json" "$library/complete"; then
  cp "$here/package.json" "$here/package-lock.json" "$library/"
  (cd "$library" && npm ci --ignore-scripts --no-audit --no-fund --silent)
  # Written last: a fetch that was cut is made again.
  cp "$here/package-lock.json" "$library/complete"
fi
# A service that has the machine to itself would do without; one that shares it stands still with the other choice.
export OPENBLAS_NUM_THREADS=${OPENBLAS_NUM_THREADS:-1}
exec node "$here/run.mjs" "$(realpath "$binary")" "$chromium" "$(realpath "$library")" "$@"
