#!/usr/bin/env bash
# Runs every fuzz target of the module for FUZZTIME, one after the other.
set -euo pipefail
cd "$(dirname "$0")/.."
go=${GO:-go}
grep -rl --include '*_test.go' '^func Fuzz' . | sort | while read -r file; do
  grep -o '^func Fuzz[A-Za-z0-9_]*' "$file" | while read -r _ target; do
    echo "== $(dirname "$file") $target"
    "$go" test -run '^$' -fuzz "^$target\$" -fuzztime "${FUZZTIME:-20s}" "$(dirname "$file")" </dev/null
  done
done
