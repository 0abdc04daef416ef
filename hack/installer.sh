#!/usr/bin/env bash
# Writes dist/install.yaml: the CRD, the admission policies and the operator that runs IMAGE, for `kubectl apply`.
#
#   hack/installer.sh IMAGE [BASE]    # BASE is a directory of config/, by default `default`
set -euo pipefail
cd "$(dirname "$0")/.."
image=${1:?usage: installer.sh IMAGE [BASE]}
base=${2:-default}
mkdir -p dist
kustomize=$(hack/kubernetes/build.sh kustomize | tail -1)/kustomize
overlay=$(mktemp -d dist/.overlay-XXXXXX)
trap 'rm -rf "$overlay"' EXIT
cat >"$overlay/kustomization.yaml" <<END
resources:
- ../../config/$base
patches:
- target: {kind: Deployment, name: georegister-operator}
  patch: |
    - {op: replace, path: /spec/template/spec/containers/0/image, value: "$image"}
    - {op: test, path: /spec/template/spec/containers/0/args/2, value: --default-image=georegister:dev}
    - {op: replace, path: /spec/template/spec/containers/0/args/2, value: "--default-image=$image"}
END
"$kustomize" build "$overlay" >"$overlay/install.yaml"
mv "$overlay/install.yaml" dist/install.yaml
echo "dist/install.yaml: kubectl apply --server-side -f dist/install.yaml"
