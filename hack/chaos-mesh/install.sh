#!/bin/bash
# Installs Chaos Mesh, built from source, on the cluster that is up: cluster-up's, or kind's. Run again, it installs what
# has changed, and restarts nothing otherwise.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

say "building what is not in the cache (the first time takes about ten minutes on two cores)"
crds=$("$build" crds | tail -1)
images=$("$build" images | tail -1)
chart=$("$build" chart | tail -1)
registry=$(cat "$images/registry") tag=$(cat "$images/tag")

# installed tells whether a release was completed, and both parts run images of this tag.
installed() {
	local part
	[[ $(helm status chaos-mesh 2>/dev/null) = *"STATUS: deployed"* ]] || return 1
	for part in deployment/chaos-controller-manager daemonset/chaos-daemon; do
		[[ $(kubectl -n "$namespace" get "$part" -o jsonpath='{.spec.template.spec.containers[0].image}' 2>/dev/null) = *":$tag" ]] || return 1
	done
}

say "loading images of the tag $tag"
"$repo/hack/cluster/load.sh" "$images"/*.tar

say "installing the CRDs"
# Those with a schema above 256 KiB don't fit into the annotation of a client-side apply.
kubectl apply --server-side --force-conflicts -f "$crds" | awk '{ n++ } END { print "        " n " CRDs" }'
kubectl wait --for condition=Established -f "$crds" --timeout 60s >/dev/null

if installed; then
	say "Chaos Mesh of this tag is installed" # an upgrade would make new certificates, and restart all
else
	say "installing Chaos Mesh in the namespace $namespace"
	# shellcheck disable=SC2054 # these are helm's commas
	values=(
		"images.registry=$registry,images.tag=$tag"
		chaosDaemon.runtime=containerd,chaosDaemon.socketPath=/run/containerd/containerd.sock
		dashboard.create=false,dnsServer.create=false
		controllerManager.replicaCount=1,controllerManager.leaderElection.enabled=false
		# An image for pods that are to fail: the one that every node of cluster-up has.
		controllerManager.podChaos.podFailure.pauseImage=registry.k8s.io/pause:georegister
	)
	helm upgrade --install chaos-mesh "$chart" --create-namespace --skip-crds "${values[@]/#/--set=}" >/dev/null
fi

# accepted asks whether the apiserver reaches the webhooks, which it does not before the Service has an endpoint there.
accepted() {
	kubectl -n "$namespace" create --dry-run=server -f - <<-END
		apiVersion: chaos-mesh.org/v1alpha1
		kind: PodChaos
		metadata: {name: probe}
		spec: {action: pod-kill, mode: one, selector: {namespaces: [$namespace], labelSelectors: {probe: none}}}
	END
}
say "waiting for the controller and a daemon on each node"
kubectl -n "$namespace" rollout status deployment/chaos-controller-manager --timeout 120s
kubectl -n "$namespace" rollout status daemonset/chaos-daemon --timeout 120s
wait_for 60 "the apiserver to reach Chaos Mesh's webhooks" accepted
say "Chaos Mesh is ready; a first experiment, and how to see what delays do: hack/chaos-mesh/README.md"
