#!/bin/bash
# Removes the cluster: its processes, mounts, namespaces, cgroups and files. Run again, it finds nothing to do.
set -euo pipefail
source "$(dirname "$0")/lib.sh"
alone "$0" "$@"
[ -d "$state" ] || { echo "no cluster is in $state" && exit 0; }
[ -e "$state/nodes.list" ] || fail "$state is not a cluster's directory: look at it, and remove it yourself"

names="control $(for node in $nodes; do echo -n "${node%:*} "; done)"
for name in $names; do stop_machine "$name" & done # the apiserver may take its time
wait
say "stopped: $names"

for node in $nodes; do
	for group in $(cgroups "${node%:*}"); do
		# A cgroup stays busy for a moment after its last process.
		[ ! -d "$group" ] || wait_for 10 "$group to be empty" find "$group" -depth -type d -exec rmdir {} + ||
			fail "$group can't be removed: its processes are in $group/cgroup.procs"
	done
done
for name in router $names; do
	[ ! -e "/run/netns/$(netns "$name")" ] || ip netns delete "$(netns "$name")"
done
if [ -e "$state/made-run-netns" ] && [ -d /run/netns ] && [ -z "$(ls /run/netns)" ]; then
	umount /run/netns 2>/dev/null || true # ip made it a mount point for the first namespace
	rmdir /run/netns
fi
[ ! -s "$state/sysctls" ] || sysctl -qp "$state/sysctls"
rm -rf "$state"
say "removed the namespaces, the cgroups and $state"
