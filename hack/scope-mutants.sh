#!/usr/bin/env bash
# Looks for known mistakes (docs/mutants.md) in small scopes, one after the other, and prints a row of the table in
# docs/checking.md for each: in which scope of its protocol it is found first, and after how many states.
#
#   hack/scope-mutants.sh [TIME] [PATTERN]   gives each scope so long, such as 30s, which is what it has without it; only
#                                            mutants with names that match the pattern, such as ^gus/
set -euo pipefail
cd "$(dirname "$0")/.."
${GO:-go} run ./test/mutants/build >&2
time=${1:-30s} pattern=${2:-.}

scopes() { # PACKAGE: its protocols' operations, faults and bounds on deviations
	case $1 in
	abd | base) echo 'abd|write; read, read|crash|3
abd|write; read; read|crash,timeout|3
abd|write; write, read|crash,timeout|3' ;;
	gryff) echo 'gryff|write; read, read|crash,timeout|3
gryff|rmw; write, read|crash,timeout|2
gryffrsc|write x; read x, read y; read x|crash,timeout|2' ;;
	gus) echo 'gus|write; read, read|crash,timeout|3
gus|write; write, read|crash,timeout|2' ;;
	caspaxos) echo 'caspaxos|rmw; rmw|crash,timeout|2' ;;
	instance) echo 'epaxos|rmw; rmw|crash,takeover|2' ;;
	rmwpaxos) echo 'rmwpaxos|rmw; read, read|crash,timeout|2' ;;
	raft) echo 'raft|write; read, read|crash,takeover|2' ;;
	curp | core) echo 'curp|write; read|crash|2
curp|write|crash,takeover|2
curp|write; read|takeover|1
curp|1: read; 2: write|takeover,timeout|2' ;;
	esac
}

names=$(find test/mutants -name '*.mutant' | sed 's,^test/mutants/,,; s,\.mutant$,,' | grep -E "$pattern" | sort) ||
	{ echo "no mutant has a name that matches $pattern" >&2; exit 1; }
told=$(mktemp)
trap 'rm -f "$told"' EXIT
while read -r mutant; do
	all=$(scopes "${mutant%%/*}")
	[ -n "$all" ] || continue # its package has no protocol that is explored
	found='not found | |'
	while IFS='|' read -r protocol operations faults deviations; do
		status=0
		report=$(GEOREGISTER_MUTANT=$mutant bin/georegister-mutants explore --protocol "$protocol" \
			--operations "$operations" --faults "$faults" --deviations "$deviations" --for "$time" --max-memory 3Gi \
			-o json </dev/null 2>"$told") || status=$?
		field() { sed -n "s/^  \"$1\": \"\?\([^\",]*\).*/\1/p" <<<"$report"; }
		verdict=$(field verdict)
		if [ -z "$verdict" ] && [ $status = 1 ]; then # it was not explored at all, and did not panic
			cat "$told" >&2
			exit 1
		fi
		case $verdict in right | 'not decided' | '') continue ;; esac
		found="\`$protocol\`: $operations, with $faults | $(field states) | $verdict |"
		break
	done <<<"$all"
	echo "| $mutant | $found"
done <<<"$names"
