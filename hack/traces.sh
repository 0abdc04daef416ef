#!/usr/bin/env bash
# Compares what happens in 5,000 schedules of each protocol, without changes of members, with what is on record
# (replica/simulator/testdata/traces), so that a change of the code's shape can be told from one of its behaviour.
#
#   hack/traces.sh --check [PROTOCOL ...]   compares, and names the first schedules that differ; without names, all that are on record
#   hack/traces.sh --write [PROTOCOL ...]   records; a protocol may be a variant, such as gus-relaxed
set -euo pipefail
cd "$(dirname "$0")/.."

schedules=5000
faults=crash,torn,partition,loss,duplicate,reorder,slow,skew,pause
record=replica/simulator/testdata/traces

mode=${1:-}
case $mode in
--check | --write) shift ;;
*) sed -n 's/^# \{0,1\}//p' "$0" | sed 1d >&2; exit 2 ;;
esac
[ $# -gt 0 ] || set -- $(basename -s .txt "$record"/*.txt)

bin=$(mktemp -d)
trap 'rm -rf "$bin"' EXIT
CGO_ENABLED=0 ${GO:-go} build -buildvcs=false -trimpath -o "$bin/georegister" ./cmd/georegister
mkdir -p "$record"
differs=0
for name in "$@"; do
	"$bin/georegister" simulate --protocol "$name" --soak $schedules --faults $faults --digests | grep '^digest' >"$bin/$name.txt"
	if [ "$mode" = --write ]; then
		mv "$bin/$name.txt" "$record/$name.txt"
	elif difference=$(diff "$record/$name.txt" "$bin/$name.txt"); then
		echo "$name: $schedules schedules as on record"
	else
		differs=1
		echo "$name differs, first in: $(sed -n 's/^< //p' <<<"$difference" | head -1)"
	fi
done
exit $differs
