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

for node in $nodes; do remove_cgroups "${node%:*}"; done
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
