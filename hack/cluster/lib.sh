# Settings and helpers of the cluster's scripts, which source this file.
# shellcheck shell=bash

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
repo=$(cd "$here/../.." && pwd)
state=${GEOREGISTER_CLUSTER:-/var/tmp/georegister-cluster}
port=${GEOREGISTER_CLUSTER_PORT:-16443} # of 127.0.0.1, where kubectl finds the apiserver

# A cluster that is up keeps the nodes it was started with, whatever the environment says now.
nodes=${GEOREGISTER_NODES:-n1:z1 n2:z2 n3:z3} # NAME:ZONE...
[ ! -f "$state/nodes.list" ] || nodes=$(cat "$state/nodes.list")

# Addresses: node number N is 10.200.N.10 behind the router's 10.200.N.1, its pods are 10.244.N.0/24.
control_ip=10.200.0.10
service_cidr=10.96.0.0/16
service_ip=10.96.0.1 # the apiserver as pods see it
dns_ip=10.96.0.10
pod_cidr=10.244.0.0/16

export KUBECONFIG=$state/kubeconfig

say() { printf '%4d s  %s\n' "$SECONDS" "$*"; }
fail() { echo "${0##*/}: $*" >&2 && exit 1; }

# netns NAME is the network namespace of the router, the control plane or a node.
netns() { echo "georegister-$1"; }

# inside NAME COMMAND... runs a command in a network namespace. `ip netns exec` would mount /sys anew, and hide the
# cgroups.
inside() {
	local ns
	ns=$(netns "$1")
	nsenter --net="/run/netns/$ns" -- "${@:2}"
}

# wait_for SECONDS WHAT COMMAND... tries the command until it succeeds.
wait_for() {
	local deadline=$((SECONDS + $1)) what=$2
	shift 2
	until "$@" >/dev/null 2>&1; do
		[ "$SECONDS" -lt "$deadline" ] || { echo "${0##*/}: gave up waiting for $what" >&2 && return 1; }
		sleep 0.2
	done
}

# A machine (the control plane, or a node) is a process that is first in a pid namespace of its own: when it is killed,
# the kernel kills all else in there. It is known by its pid and that namespace, as pids are given again.

# machine NAME prints the pid of a machine that runs.
machine() {
	local pid namespace
	read -r pid namespace 2>/dev/null <"$state/run/$1" || return 1
	[ "$(readlink "/proc/$pid/ns/pid")" = "$namespace" ] && echo "$pid"
}

# start_machine NAME SCRIPT ARGUMENTS... starts the script as the first process of a machine, with its own mounts and
# host name. It writes its pid, as this side sees it, while it still sees this side's /proc.
start_machine() {
	local name=$1
	shift
	setsid unshare --mount --uts --pid --fork bash -c '
		read -r pid _ </proc/self/stat
		echo "$pid $(readlink "/proc/$pid/ns/pid")" >"$1.new" && mv "$1.new" "$1"
		mount --make-rprivate / && mount -t proc proc /proc
		exec "${@:2}"' machine "$state/run/$name" "$@" \
		</dev/null >>"$state/log/$name.log" 2>&1 &
	wait_for 10 "$name to start" machine "$name" || fail "$name did not start: see $state/log/$name.log"
}

# start_node NAME BINARIES starts a node's machine in its network namespace.
start_node() {
	local node number=0
	for node in $nodes; do
		number=$((number + 1))
		[ "${node%:*}" = "$1" ] || continue
		start_machine "$1" nsenter --net="/run/netns/$(netns "$1")" -- \
			"$here/node.sh" "$1" "${node#*:}" "$number" "$2"
	done
}

# stop_machine NAME ends a machine and everything in it.
stop_machine() {
	local pid
	pid=$(machine "$1") || return 0
	kill -KILL "$pid" 2>/dev/null || return 0
	wait_for 30 "$1 to end" eval "! machine $1"
}

# enter NODE COMMAND... runs a command as if on the node.
enter() {
	local pid
	pid=$(machine "$1") || fail "node $1 is not running; there are: $nodes"
	nsenter --target "$pid" --mount --uts --net --pid -- "${@:2}"
}

# keep NAME COMMAND... runs a daemon of a machine in the background, and starts it again when it ends.
keep() {
	local name=$1
	shift
	while :; do
		"$@" >>"$state/log/$name.log" 2>&1 </dev/null && echo "$name ended" || echo "$name failed with $?"
		sleep 1
	done &
}

# cgroups NODE prints the node's directory in each cgroup hierarchy: one with cgroup v2, several with v1.
cgroups() {
	local at
	if [ -f /sys/fs/cgroup/cgroup.controllers ]; then
		echo "/sys/fs/cgroup/georegister-$1"
	else
		for at in /sys/fs/cgroup/*/; do echo "${at}georegister-$1"; done
	fi
}

# remove_cgroups NODE removes what a node that was stopped leaves in them.
remove_cgroups() {
	local group
	for group in $(cgroups "$1"); do
		# A cgroup stays busy for a moment after its last process.
		[ ! -d "$group" ] || wait_for 10 "$group to be empty" find "$group" -depth -type d -exec rmdir {} + ||
			fail "$group can't be removed: its processes are in cgroup.procs below it"
	done
}

# alone SCRIPT ARGUMENTS... runs a script again under a lock that no daemon inherits, so that two never work at once.
alone() {
	[ -z "${GEOREGISTER_LOCKED:-}" ] || return 0
	GEOREGISTER_LOCKED=1 exec flock --close /run/lock/georegister-cluster "$@"
}
