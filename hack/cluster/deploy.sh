#!/bin/bash
# deploy.sh DIRECTORY [HELM FLAGS]: packs the project's static binaries in a directory into the image IMAGE=georegister:dev, loads it onto the nodes of
# the cluster that is up (cluster-up's, or kind's) and installs the operator from charts/georegister. No registry and no
# Docker is involved. The operator manages the namespace default. Run again, it runs the new binary.
set -euo pipefail
source "$(dirname "$0")/lib.sh"
[ $# -gt 0 ] || { sed -n '2,4s/^# //p' "$0" >&2 && exit 2; }
binaries=$1 image=${IMAGE:-georegister:dev}
namespace=georegister-system

if [ ! -e "$state/nodes.list" ]; then unset KUBECONFIG; fi # kind has written to the user's own
bin=$("$repo/hack/kubernetes/build.sh" kubectl helm | tail -1)
context=()
[ -e "$state/nodes.list" ] || context=(--context kind-georegister)

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
say "packing $binaries into $image"
(cd "$here" && CGO_ENABLED=0 GOWORK=off go build -trimpath -buildvcs=false -ldflags "-s -w" -o "$scratch/image" ./image)
"$scratch/image" -o "$scratch/georegister.tar" -t "$image" -entrypoint /georegister -user 65532 -dir /data \
	"$binaries/georegister=/georegister" "$binaries/georegister-operator=/georegister-operator"
"$here/load.sh" "$scratch/georegister.tar"

say "installing the operator in $namespace"
was=$("$bin/kubectl" "${context[@]}" -n "$namespace" get deployments -o name 2>/dev/null || true)
"$bin/helm" upgrade --install georegister "$repo/charts/georegister" "${context[@]/--context/--kube-context}" \
	--namespace "$namespace" --create-namespace \
	--set "image.repository=${image%:*}" --set "image.tag=${image##*:}" --set 'watchNamespaces={default}' "${@:2}"
# The same tag holds another binary now, which a Deployment does not see.
for deployment in $was; do "$bin/kubectl" "${context[@]}" -n "$namespace" rollout restart "$deployment"; done
for deployment in $("$bin/kubectl" "${context[@]}" -n "$namespace" get deployments -o name); do
	"$bin/kubectl" "${context[@]}" -n "$namespace" rollout status "$deployment" --timeout 90s
done
say "done"
