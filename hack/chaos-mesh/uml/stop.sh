#!/bin/bash
# stop.sh NODE: see start.sh.
set -euo pipefail
source "$(dirname "$0")/../../cluster/lib.sh"
alone "$0" "$@"
[ $# = 1 ] || { sed -n '2s/^# //p' "$0" >&2 && exit 2; }
[ -e "$state/uml-$1" ] || { echo "$1 is a node like the others" && exit 0; }
number=0
for node in $nodes; do
	number=$((number + 1))
	[ "${node%:*}" != "$1" ] || break
done
export GEOREGISTER_LOCKED=1
"$here/power.sh" off "$1"
inside "$1" ip address replace "10.200.$number.10/24" dev eth0
inside "$1" ip route replace default via "10.200.$number.1"
rm "$state/uml-$1"
"$here/power.sh" on "$1"
