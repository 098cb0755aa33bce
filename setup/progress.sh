#!/usr/bin/env bash
# Runs a build by cargo and keeps what it says to a few lines: what is being built and how long that takes the first time, a line
# for every 25 crates, how long it took. Warnings, errors and waits for another cargo come through whole.
#   usage: setup/progress.sh WHAT ESTIMATE COMMAND...
what=$1 estimate=$2
shift 2
[ -t 2 ] && export CARGO_TERM_COLOR=always
colour=$'(\e\\[[0-9;]*m)*'
step() { [[ $line =~ ^$colour\ +$colour($1)$colour\  ]]; }
crates=0 downloads=0
"$@" 2>&1 | while IFS= read -r line; do
  if step Compiling; then
    ((crates++ > 0)) || echo "make: compiling $what ($estimate)"
    ((crates % 25 > 0)) || echo "make: $crates crates so far, $SECONDS s"
  elif step 'Downloading|Downloaded|Updating|Locking|Adding'; then
    ((downloads++ > 0)) || echo "make: downloading crates for $what"
  elif step Finished; then
    ((crates == 0)) || echo "make: compiled $what, $crates crates in $SECONDS s"
  else
    printf '%s\n' "$line"
  fi
done >&2
exit "${PIPESTATUS[0]}"
