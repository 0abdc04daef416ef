#!/usr/bin/env bash
# Explores the scopes of the table in docs/checking.md, one after the other, and prints its rows. It takes some hours.
#
#   hack/scopes.sh [TIME]   gives each scope so long, such as 10m; without it, an hour
set -euo pipefail
cd "$(dirname "$0")/.."
bin=$(mktemp -d)
trap 'rm -rf "$bin"' EXIT
CGO_ENABLED=0 ${GO:-go} build -buildvcs=false -trimpath -o "$bin/georegister" ./cmd/georegister

explore() { # PROTOCOL OPERATIONS FAULTS [FLAG ...]
	local protocol=$1 operations=$2 faults=$3
	shift 3
	"$bin/georegister" explore --protocol "$protocol" --operations "$operations" --faults "$faults" --for "$time" "$@" |
		awk -v scope="\`$protocol\` | $operations | $faults${*:+, $*}" '
			/ states/ { split($0, part, ", "); gsub(/.*: | states/, "", part[1]); states = part[1]; sub(/.* in /, ""); took = $0 }
			/^verdict/ { sub(/verdict: /, ""); print "| " scope " | " states " | " took " | " $0 " |" }'
}

time=${1:-1h}
for faults in none timeout=2 loss,timeout=2 crash,timeout=2 takeover,timeout=2; do
	for operations in 'write; read' 'write; write'; do
		for protocol in abd gryff gryffrsc gus; do
			explore $protocol "$operations" $faults || true
		done
	done
	explore gryffrsc 'write x; read x, read y' $faults || true
done
for faults in none loss crash takeover timeout; do
	for protocol in gus caspaxos epaxos rmwpaxos; do
		explore $protocol 'write; read' $faults || true
	done
done
