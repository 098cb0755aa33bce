#!/usr/bin/env bash
# Checks that this machine has what `make` builds with, before anything is downloaded or compiled. Everything that is missing is
# named in one message, each with the command that brings it; then the exit code is 2. Only bash itself is taken for granted.
cd "${BASH_SOURCE[0]%/*}/.." || exit 2
missing=()
works() { "$@" >/dev/null 2>&1; }
lacks() { missing+=("make:   $1"); }

case $(uname -s) in
  Darwin) system=macos ;;
  *) system=linux ;;
esac
# What brings a tool: a Debian package, or on macOS the one command that brings all of them.
get() { if [ $system = macos ]; then echo "xcode-select --install"; else echo "apt-get install $1 (or your distribution's package)"; fi; }

works cc --version || lacks "cc, the C compiler and linker, is missing: $(get gcc)"
works g++ --version || lacks "g++ is missing: $(get g++)"
if ! works python3 --version; then
  lacks "python3 with pip is missing: $(get "python3 python3-pip")"
elif ! works python3 -c 'import pip'; then
  lacks "python3 has no pip (python3 -m pip does not run): $(get python3-pip)"
fi

if [ $system = macos ]; then
  works cmake --version || lacks "cmake is missing: brew install cmake"
else
  works nm --version || lacks "nm is missing: $(get binutils)"
  case $(uname -m) in
    x86_64 | aarch64) ;;
    *) lacks "the processor is $(uname -m): on Linux, MLX's wheel is for x86_64 and aarch64" ;;
  esac
  libc=$(getconf GNU_LIBC_VERSION 2>/dev/null || ldd --version 2>/dev/null)
  if [[ ! $libc =~ ([0-9]+)\.([0-9]+) ]]; then
    lacks "the C library is not glibc: MLX's wheel needs glibc 2.35 or newer (Debian 12, Ubuntu 22.04, Fedora 36)"
  elif ((BASH_REMATCH[1] < 2 || BASH_REMATCH[1] == 2 && BASH_REMATCH[2] < 35)); then
    lacks "glibc is ${BASH_REMATCH[0]}: MLX's wheel needs 2.35 or newer (Debian 12, Ubuntu 22.04, Fedora 36)"
  fi
fi

# An old cargo stops at this folder's configuration, even when it is asked for its version only: it is asked again elsewhere.
[[ $(<Cargo.toml) =~ rust-version\ =\ \"1\.([0-9]+)\" ]] && least=${BASH_REMATCH[1]}
rust="curl -sSf https://sh.rustup.rs | sh, then open a new shell"
command -v rustup >/dev/null && rust="rustup update stable && rustup default stable"
cargo=$(cargo --version 2>/dev/null || { cd / && cargo --version 2>/dev/null; })
if ! command -v cargo >/dev/null; then
  lacks "cargo is missing, 1.$least or later is needed: $rust"
elif [[ ! $cargo =~ ^cargo\ ([0-9]+)\.([0-9]+) ]]; then
  lacks "cargo does not run (cargo --version fails), 1.$least or later is needed: $rust"
elif ((BASH_REMATCH[1] == 1 && BASH_REMATCH[2] < least)); then
  lacks "cargo is ${BASH_REMATCH[1]}.${BASH_REMATCH[2]}, 1.$least or later is needed: $rust"
fi

[ ${#missing[@]} = 0 ] && exit 0
echo "make: coxswain cannot be built on this machine yet:" >&2
printf '%s\n' "${missing[@]}" >&2
exit 2
