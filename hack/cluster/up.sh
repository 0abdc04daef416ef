#!/bin/bash
# Starts the cluster: a control plane and one node per zone, in namespaces of this machine. Run again, it starts the nodes
# that are off; a cluster whose control plane is gone, it replaces.
set -euo pipefail
source "$(dirname "$0")/lib.sh"
alone "$0" "$@"

registered() { [ "$(kubectl get nodes -o name 2>/dev/null | wc -l)" = "$(wc -w <<<"$nodes")" ]; }

next_steps() {
	cat <<-END

		The cluster is up. To use it:
		  export KUBECONFIG=$KUBECONFIG PATH=$bin:\$PATH
		  kubectl get nodes -L topology.kubernetes.io/zone
		  make deploy                       # build this project's image, load it, install the operator
		  hack/cluster/zone.sh cut z2       # cut a zone off; heal z2 joins it again
		  make cluster-down                 # remove everything
	END
}

"$here/check.sh" || [ -e "$state/nodes.list" ] || exit 1
say "building what is not in the cache (the first time takes about ten minutes on two cores)"
bin=$("$repo/hack/kubernetes/build.sh" cluster | tail -1)
export PATH=$bin:$PATH

# prepare makes all that machines start from, and the control plane.
prepare() {
	! ip netns list | grep -q "^$(netns router)\b" ||
		fail "a cluster of another state directory runs: name it by GEOREGISTER_CLUSTER and run make cluster-down"
	! (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null ||
		fail "port $port of 127.0.0.1 is taken: set GEOREGISTER_CLUSTER_PORT to a free one"

	"$here/packages.sh" install
	mkdir -p "$state"/{run,log,bin,nodes}
	echo "$nodes" >"$state/nodes.list"
	trap '[ $? = 0 ] || echo "up.sh: logs are in $state/log; make cluster-down removes what was started" >&2' EXIT

	# The kubelet sets these for the whole machine; down.sh sets them back.
	sysctl vm.overcommit_memory vm.panic_on_oom kernel.panic kernel.panic_on_oops >"$state/sysctls"
	[ -d /run/netns ] || touch "$state/made-run-netns"

	say "building images"
	(cd "$here" && CGO_ENABLED=0 GOWORK=off go build -trimpath -buildvcs=false -ldflags "-s -w" -o "$state/bin/" ./...)
	"$here/images.sh" "$bin"
	say "making the network and certificates"
	"$here/network.sh"
	"$here/pki.sh"

	say "starting the control plane"
	start_machine control "$here/control.sh" "$bin"
	wait_for 60 "the apiserver" kubectl get --raw /readyz
}

if [ -e "$state/nodes.list" ] && ! { machine control >/dev/null && kubectl get --raw /readyz >/dev/null 2>&1; }; then
	say "removing a cluster whose control plane is gone: $state"
	"$here/down.sh"
	exec "$0" "$@" # its list of nodes is gone: the environment's counts again
fi
[ -e "$state/nodes.list" ] || prepare
kubectl apply -f "$here/manifests" >/dev/null

for node in $nodes; do
	machine "${node%:*}" >/dev/null && continue
	say "starting node ${node%:*} in zone ${node#*:}"
	remove_cgroups "${node%:*}"
	start_node "${node%:*}" "$bin"
done
wait_for 60 "the nodes to register" registered
kubectl wait --for condition=Ready nodes --all --timeout 60s >/dev/null ||
	fail "a node is not ready; what is cut off (zone.sh list): $("$here/zone.sh" list)"
kubectl -n kube-system rollout status daemonset/coredns --timeout 60s >/dev/null
say "nodes and DNS are ready"
next_steps
