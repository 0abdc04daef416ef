#!/bin/bash
# start.sh NODE   makes a node of the cluster that is up a machine with a kernel of its own, one that has sch_netem, sch_prio
#                 and sch_sfq: Debian's user-mode-linux. Its disk is in memory, and empty each time.
# stop.sh NODE    makes it a node like the others again
#
# A cluster with a node for it: GEOREGISTER_NODES="n1:z1 n2:z2 n3:z3 n4:z4" make cluster-up, and then start.sh n4.
set -euo pipefail
source "$(dirname "$0")/../../cluster/lib.sh"
uml=$repo/hack/chaos-mesh/uml
alone "$0" "$@"
[ $# = 1 ] || { sed -n '2,6s/^# //p' "$0" >&2 && exit 2; }
[ -e "$state/nodes.list" ] || fail "no cluster is up: run make cluster-up"
number=0 zone=
for node in $nodes; do
	number=$((number + 1))
	[ "${node%:*}" != "$1" ] || { zone=${node#*:} && break; }
done
[ -n "$zone" ] || fail "there is no node $1; the nodes and their zones are: $nodes"
if [ -e "$state/uml-$1" ] && machine "$1" >/dev/null; then
	echo "$1 is one already"
	exit
fi

bin=$("$repo/hack/kubernetes/build.sh" cluster | tail -1)
export PATH=$bin:$PATH
if ! command -v linux.uml >/dev/null || ! command -v modprobe >/dev/null; then
	say "installing user-mode-linux and kmod"
	{ apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends user-mode-linux kmod; } >"$state/log/$1-uml-install.log" 2>&1 ||
		fail "they can't be installed: see $state/log/$1-uml-install.log"
fi

say "stopping $1"
GEOREGISTER_LOCKED=1 "$here/power.sh" off "$1"
# The machine takes over the node's link, so its address must not be here as well.
touch "$state/uml-$1"
inside "$1" ip address flush dev eth0

say "starting $1 with a kernel of its own"
rm -rf "$state/uml-memory" && mkdir -p "$state/uml-memory"
# shellcheck disable=SC2054 # these are commas of the kernel
kernel=(
	linux.uml "mem=${GEOREGISTER_UML_MEMORY:-2048M}" "umid=$1" "uml_dir=$state/uml-memory"
	root=/dev/root rootfstype=hostfs hostfs=/ ro # this machine's files, which it can't change
	vec0:transport=raw,ifname=eth0,depth=128,gro=1
	con=null con0=fd:0,fd:1 quiet "init=$uml/init.sh"
	"NODE=$1" "ZONE=$zone" "NUMBER=$number" "BIN=$bin" "STATE=$state"
)
TMPDIR=/dev/shm start_machine "$1" nsenter --net="/run/netns/$(netns "$1")" -- "${kernel[@]}"

# A node that is off stays Ready for a while: the kernel tells which one reports.
reported() {
	local status
	status=$(kubectl get node "$1" -o jsonpath='{.status.conditions[?(@.type=="Ready")].status} {.status.nodeInfo.kernelVersion}')
	[[ $status = "True "* && $status != *"$(uname -r)"* ]]
}
wait_for 180 "$1 to be ready (see $state/log/$1.log)" reported "$1"
say "$1 is ready: $(kubectl get node "$1" -o jsonpath='{.status.nodeInfo.kernelVersion}')"
