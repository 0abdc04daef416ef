#!/usr/bin/env bash
# Explores the scopes of the table in docs/checking.md, one after the other, and prints its rows. It takes two hours
# and a half or more, and for two scopes 16 GiB of memory; how far it is goes to the standard error.
#
#   hack/scopes.sh [TIME]   gives each scope so long, such as 10m; without it, an hour
set -euo pipefail
cd "$(dirname "$0")/.."
bin=$(mktemp -d)
trap 'rm -rf "$bin"' EXIT
CGO_ENABLED=0 ${GO:-go} build -buildvcs=false -trimpath -o "$bin/georegister" ./cmd/georegister
time=${1:-1h}

explore() { # PROTOCOL OPERATIONS FAULTS...
	local protocol=$1 operations=$2 faults
	shift 2
	for faults; do
		{ "$bin/georegister" explore ${memory:+--max-memory "$memory"} --for "$time" \
			--protocol "$protocol" --operations "$operations" --faults "$faults" || true; } |
			awk -v scope="\`$protocol\` | $operations | $faults" '
				/ states/ { split($0, part, ", "); gsub(/.*: | states/, "", part[1]); states = part[1]; sub(/.* in /, ""); took = seconds($0) }
				/^verdict/ { sub(/verdict: /, ""); print "| " scope " | " states " | " took " | " $0 " |"; told = 1 }
				END { exit !told } # it was no scope, or no time, as the standard error says
				function seconds(text,  all) { # of a time such as 1h2m3.4s
					if (text ~ /[µm]s$/) return "< 1 s"
					if (match(text, /^[0-9]+h/)) { all += 3600 * substr(text, 1, RLENGTH - 1); text = substr(text, RLENGTH + 1) }
					if (match(text, /^[0-9]+m/)) { all += 60 * substr(text, 1, RLENGTH - 1); text = substr(text, RLENGTH + 1) }
					all += text + 0
					return all < 1 ? "< 1 s" : sprintf("%.0f s", all)
				}'
	done
}

alone=(none timeout=2 loss,timeout=2 crash,timeout=2 takeover,timeout=2)
for protocol in abd gryff gryffrsc; do
	explore $protocol 'write; read' "${alone[@]}"
	explore $protocol 'write; write' "${alone[@]}"
done
explore gryffrsc 'write x; read x, read y' "${alone[@]}"
explore gus 'write; read' none loss crash takeover timeout crash,timeout "${alone[@]:1}"
explore gus 'write; write' none loss crash takeover timeout=2
explore caspaxos 'write; read' none loss crash takeover timeout
explore epaxos 'write; read' none loss crash takeover timeout
explore rmwpaxos 'write a; read a' none loss crash
memory=18Gi explore rmwpaxos 'write a; read a' takeover timeout
explore rmwpaxos '2: write a; 2: read a' none loss crash takeover timeout=2
explore curp 'write; read' none loss crash timeout timeout=2 loss,timeout crash,timeout takeover
explore curp 'write; write' none loss crash timeout
