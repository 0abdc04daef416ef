#!/bin/bash
# Says in one line whether this machine can run the cluster, and why not. Changes nothing.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

no() { echo "no: $*" && exit 1; }

[ "$(uname -s)" = Linux ] || no "the cluster's nodes are Linux namespaces, this is $(uname -s); use make cluster-kind"
[ "$(id -u)" = 0 ] || no "this needs root, for namespaces and mounts: run it with sudo, or use make cluster-kind"
command -v go >/dev/null || no "go is not in PATH: Kubernetes is built from source; install Go 1.26 or newer"
missing=$("$here/packages.sh" missing)
[ -z "$missing" ] || command -v apt-get >/dev/null ||
	no "the commands of these Debian packages are missing, and there is no apt-get to install them:$missing"
for tool in ip nsenter unshare flock; do
	command -v "$tool" >/dev/null || no "$tool is missing: install iproute2 and util-linux"
done
unshare --net --mount --pid --fork --uts true 2>/dev/null || no "namespaces can't be made here (a container without privileges?)"
unshare --net ip link add name probe0 type veth peer name probe1 2>/dev/null || no "the kernel has no veth links: modprobe veth"
unshare --net ip link add name probe0 type bridge 2>/dev/null || no "the kernel has no bridges: modprobe bridge"
[ -e /proc/sys/net/bridge/bridge-nf-call-iptables ] || modprobe br_netfilter 2>/dev/null ||
	no "the kernel does not filter bridged packets: modprobe br_netfilter"
grep -qw overlay /proc/filesystems || modprobe overlay 2>/dev/null || no "the kernel has no overlay file system: modprobe overlay"
[ "$(findmnt -n -o FSTYPE -T "$(dirname "$state")")" != overlay ] ||
	no "$state is on an overlay file system, which can't hold containers: set GEOREGISTER_CLUSTER to a directory on a disk"
if [ -f /sys/fs/cgroup/cgroup.controllers ]; then
	for c in cpu cpuset memory pids; do
		grep -qw "$c" /sys/fs/cgroup/cgroup.controllers || no "cgroup v2 has no $c controller here"
	done
else
	for c in cpu cpuacct cpuset memory devices freezer pids; do
		[ -f "/sys/fs/cgroup/$c/cgroup.procs" ] || no "the cgroup v1 hierarchy $c is not mounted"
	done
fi
memory=$(awk '$1 == "MemAvailable:" { print int($2 / 1024) }' /proc/meminfo)
[ "$memory" -ge 2500 ] || no "$memory MiB of memory are free; three nodes, with what runs on them, need 2500"
disk=$(df -Pm "$(dirname "$state")" | awk 'NR == 2 { print $4 }')
[ "$disk" -ge 8000 ] || no "$disk MiB are free for $state; building and running the cluster takes 8000"
echo "yes: this machine can run the cluster ($memory MiB of memory and $disk MiB of disk are free)"
