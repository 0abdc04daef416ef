# Settings and helpers of install.sh and uninstall.sh, which source this file.
# shellcheck shell=bash
source "$(dirname "${BASH_SOURCE[0]}")/../cluster/lib.sh"
# shellcheck disable=SC2034 # for those that source this
build=$repo/hack/chaos-mesh/build.sh
namespace=chaos-mesh

# The cluster is that of cluster-up, or kind's.
flags=()
if [ ! -e "$state/nodes.list" ]; then
	unset KUBECONFIG # kind has written to the user's own
	flags=(--context kind-georegister)
fi
bin=$("$repo/hack/kubernetes/build.sh" kubectl helm | tail -1)
kubectl() { "$bin/kubectl" "${flags[@]}" "$@"; }
helm() { "$bin/helm" "${flags[@]/--context/--kube-context}" --namespace "$namespace" "$@"; }
kubectl get --raw /readyz >/dev/null 2>&1 || fail "no cluster answers: run make cluster-up (Linux, root) or make cluster-kind"
