#!/bin/bash
# zone.sh cut ZONE          drops all packets between a zone and the others, and the control plane
# zone.sh cut ZONE ZONE     drops all packets between two zones
# zone.sh heal ZONE [ZONE]  lets them pass again
# zone.sh list              lists what is cut
set -euo pipefail
source "$(dirname "$0")/lib.sh"
usage() { sed -n '2,5s/^# //p' "$0" >&2 && exit 2; }

[ -e "$state/nodes.list" ] || fail "no cluster is up: run make cluster-up"
for zone in "${@:2}"; do
	grep -Eq ":$zone( |$)" <<<"$nodes" || fail "there is no zone $zone; the nodes and their zones are: $nodes"
done

# rules ACTION INTERFACES... sets (-A) or removes (-D) the two rules of a cut. An interface of the router is named after
# the zone and the node that it leads to, and iptables takes z1-+ for all that start so.
rules() {
	local action=$1 here=$2-+ there=${3:+$3-+}
	if [ -n "$there" ]; then
		change "$action" -i "$here" -o "$there"
		change "$action" -i "$there" -o "$here"
	else
		change "$action" -i "$here" ! -o "$here"
		change "$action" ! -i "$here" -o "$here"
	fi
}

# change ACTION RULE... does nothing where that was done before.
change() {
	local there=no
	! inside router iptables -w -C FORWARD "${@:2}" -j DROP 2>/dev/null || there=yes
	case $1$there in
	-Ano | -Dyes) inside router iptables -w "$1" FORWARD "${@:2}" -j DROP ;;
	esac
}

case ${1:-}$# in
cut2 | cut3) rules -A "${@:2}" ;;
heal2 | heal3) rules -D "${@:2}" ;;
list1) inside router iptables -w -S FORWARD | sed -n 's/^-A FORWARD //p' ;;
*) usage ;;
esac
