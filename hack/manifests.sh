#!/usr/bin/env bash
# Regenerates what is made from the definitions of the protocols: the table of replica/capability, and tables of the documentation; from
# the types of api/v1alpha1 and the markers of controllers: the CRD, deep copies, the operator's role and docs/api.md; and the CRDs of the
# Prometheus operator and Chaos Mesh from their types. With --check it changes nothing, and fails if one of them is out of date.
set -euo pipefail
cd "$(dirname "$0")/.."
go=${GO:-go}
controller_gen=sigs.k8s.io/controller-tools/cmd/controller-gen@v0.23.0
crd_ref_docs=github.com/elastic/crd-ref-docs@v0.3.0

out=.
if [ "${1:-}" = --check ]; then
  out=$(mktemp -d)
  trap 'rm -rf "$out"' EXIT
fi
mkdir -p "$out/docs"
$go run ./hack/protocols -out "$out"
$go run $controller_gen crd object paths=./api/v1alpha1 \
  output:crd:dir="$out/config/crd/bases" output:object:dir="$out/api/v1alpha1"
$go run $controller_gen rbac:roleName=georegister-operator paths=./controllers output:rbac:dir="$out/config/rbac"
$go run $crd_ref_docs --log-level=ERROR --source-path=api/v1alpha1 --config=hack/api-reference.yaml \
  --renderer=markdown --output-path="$out/docs/api.raw"
cat -s "$out/docs/api.raw" >"$out/docs/api.md" # without runs of empty lines
rm "$out/docs/api.raw"
# The Prometheus operator's CRDs, for tests, from the types that are made.
prometheus=$out/test/controlplane/testdata/prometheus
$go run $controller_gen crd:maxDescLen=0 paths=github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1 \
  output:crd:dir="$prometheus"
find "$prometheus" -type f ! -name '*_podmonitors.yaml' ! -name '*_prometheusrules.yaml' -delete
# And Chaos Mesh's, as those that it ships lag behind its types.
chaos=$out/test/controlplane/testdata/chaos-mesh
$go run $controller_gen crd:ignoreUnexportedFields=true,maxDescLen=0 paths=github.com/chaos-mesh/chaos-mesh/api/v1alpha1 \
  output:crd:dir="$chaos"
find "$chaos" -type f ! -name '*_networkchaos.yaml' -delete

[ "$out" = . ] && exit
stale=0
while IFS= read -r file; do
  diff -u "$file" "$out/$file" || stale=1
done < <(cd "$out" && find . -type f | sort)
[ $stale = 0 ] || { echo "generated files are out of date: run make manifests" >&2 && exit 1; }
