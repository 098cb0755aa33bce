#!/usr/bin/env bash
# Makes the virtual environment of the oracle (mlx-lm and what reads and writes its fixtures), every package pinned by hash.
#   usage: oracle/setup.sh [VENV]        VENV is .venv at the repository's root unless named
# Does nothing when the environment is already the one that this folder describes. Needs python3 (3.11 or later) with venv;
# on Linux also gcc and nm, for OpenBLAS: the wheel's reference BLAS is 10 to 14 times slower.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
venv=${1:-$here/../.venv}

die() { echo "oracle: $*" >&2; exit 1; }
need() { command -v "$1" >/dev/null || die "$1 is missing: $2"; }

sum() { if command -v sha256sum >/dev/null; then sha256sum; else shasum -a 256; fi | cut -d' ' -f1; }
need python3 "install Python 3.11 or later"
python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' || die "python3 is $(python3 -V), but 3.11 or later is needed"
want=$(cat "$here/setup.sh" "$here/requirements.txt" | sum)
if [ "$(cat "$venv/oracle.sum" 2>/dev/null || true)" = "$want" ]; then
  exit 0
fi

# Linux: put OpenBLAS behind the file name that the wheel's MLX loads. scipy-openblas32 prefixes its symbols, so a stub of jumps
# gives them their plain names back. $1: site-packages.
openblas() {
  local libs=$1/mlx_cpu.libs fast=$1/scipy_openblas32/lib work jump
  local old=("$libs"/libblas-*.so*)
  [ -f "${old[0]}" ] || die "no libblas in $libs: is this still mlx-cpu?"
  case $(uname -m) in
    x86_64) jump='jmp scipy_%s@PLT' ;;
    aarch64) jump='b scipy_%s' ;;
    *) die "no OpenBLAS stub for $(uname -m)" ;;
  esac
  work=$(mktemp -d)
  nm -D --defined-only "$fast/libscipy_openblas.so" | awk '{print $3}' | sed -n 's/^scipy_//p' | sort > "$work/have"
  nm -D --defined-only "${old[0]}" | awk '{print $3}' | grep -v '^_' | sort > "$work/want"
  comm -12 "$work/have" "$work/want" | awk -v jump="$jump" '
    BEGIN { print ".text" }
    { printf ".globl %s\n.type %s,%%function\n%s: ", $1, $1, $1; printf jump "\n", $1 }
    END { print ".section .note.GNU-stack,\"\",%progbits" }' > "$work/stub.s"
  gcc -shared -o "$work/stub.so" "$work/stub.s" -L"$fast" -lscipy_openblas \
    -Wl,-rpath,'$ORIGIN/../scipy_openblas32/lib' -Wl,-soname,"$(basename "${old[0]}")"
  # A new file, not new content: a process that has the old one mapped keeps it.
  mv "$work/stub.so" "${old[0]}"
  rm -r "$work"
}

if [ "$(uname -s)" = Linux ]; then
  need gcc "install a C compiler"
  need nm "install binutils"
fi
echo "oracle: installing mlx-lm and its packages into $venv (a minute, about 600 MB)"
if [ -e "$venv" ]; then
  [ -f "$venv/pyvenv.cfg" ] || die "$venv is there and is no virtual environment"
  rm -r "$venv"
fi
python3 -m venv "$venv"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes --only-binary :all: -r "$here/requirements.txt"
if [ "$(uname -s)" = Linux ]; then
  echo "oracle: putting OpenBLAS in front of the reference BLAS"
  openblas "$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')"
fi
"$venv/bin/python" - <<'PY' || die "the environment does not work"
import sys
import mlx.core as mx
import mlx_lm

mx.eval(mx.ones((64, 64)) @ mx.ones((64, 64)))
if sys.platform == "linux":
    with open("/proc/self/maps") as maps:
        assert any("libscipy_openblas" in line for line in maps), "MLX does not use OpenBLAS"
PY
echo "$want" > "$venv/oracle.sum"
