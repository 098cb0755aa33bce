#!/usr/bin/env bash
# deploy/ held against the real things: the binary under load, a Prometheus that scrapes it with the shipped rules, Grafana's own
# schema. usage: tests/deploy/run.sh [BINARY]    What it lacks is named at once; nothing is left running, nothing outside target/.
set -euo pipefail
cd "$(dirname "$0")/../.."
target=${CARGO_TARGET_DIR:-target}
binary=${1:-$target/release/coxswain}
missing=()
lacks() { command -v "$1" >/dev/null || missing+=("deploy:   $1 is missing: $2"); }
lacks python3 "apt-get install python3"
lacks prometheus "apt-get install prometheus (its service need not run: systemctl disable --now prometheus)"
lacks promtool "it comes with the package prometheus: apt-get install prometheus"
lacks npm "apt-get install npm"
[ -x "$binary" ] || missing+=("deploy:   $binary is missing: make build")
if [ ${#missing[@]} -gt 0 ]; then
  printf '%s\n' "deploy: the test of deploy/ cannot run on this machine yet:" "${missing[@]}" >&2
  exit 2
fi
exec python3 tests/deploy/run.py "$binary" "$target"
