#!/bin/bash
# power.sh off NODE   ends all processes of a node at once, as a power failure does; its disk stays
# power.sh on NODE    starts the node again
set -euo pipefail
source "$(dirname "$0")/lib.sh"
alone "$0" "$@"
[ $# = 2 ] || { sed -n '2,3s/^# //p' "$0" >&2 && exit 2; }
[ -e "$state/nodes.list" ] || fail "no cluster is up: run make cluster-up"
grep -Eq "(^| )$2:" <<<"$nodes" || fail "there is no node $2; the nodes and their zones are: $nodes"
case $1 in
off)
	stop_machine "$2"
	remove_cgroups "$2" # or the kubelet takes seconds for each that no container answers for
	;;
on) machine "$2" >/dev/null || start_node "$2" "$("$repo/hack/kubernetes/build.sh" cluster | tail -1)" ;;
*) fail "$1: want on or off" ;;
esac
