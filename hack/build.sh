#!/usr/bin/env bash
# Runs go build with the given arguments and shows how far it is: the first build compiles several hundred
# packages, which takes a minute or more.
set -euo pipefail
cd "$(dirname "$0")/.."
go=${GO:-go}
for package; do :; done # the last argument
terminal=0
if [ -t 1 ]; then terminal=1; fi # here, as a substitution's output is never one
total=$("$go" list -deps "$package" | wc -l | tr -d ' ')
"$go" build -v "$@" 2>&1 | awk -v total="$total" -v terminal="$terminal" '
  # go build -v prints the import path of each package that it compiles; anything with a space is a message.
  / / || /^#/ { print; fflush(); next }
  {
    n++
    if (terminal) { printf "\r\033[Kbuilding: %d of at most %d packages: %s", n, total, $0; fflush() }
    else if (n % 50 == 0) { printf "building: %d of at most %d packages\n", n, total; fflush() }
  }
  END { if (terminal && n) printf "\r\033[K"; if (n) printf "built %d packages\n", n }
'
