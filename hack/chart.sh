#!/usr/bin/env bash
# Copies what the chart shares with config/ into the chart, which must be whole without the repository: the CRDs, what
# the operator may do, and the admission policies. Templates read the copies as they are, so that nothing in them is
# taken for a template. A test compares the two (test/chart).
set -euo pipefail
shopt -s nullglob
cd "$(dirname "$0")/.."
files=charts/georegister/files
rm -rf "$files"
mkdir -p "$files/crd" "$files/rbac" "$files/admission"
cp config/crd/bases/*.yaml "$files/crd/"
cp config/rbac/role.yaml config/rbac/leader_election_role.yaml "$files/rbac/"
for file in config/admission/*.yaml; do
  [ "${file##*/}" = kustomization.yaml ] || cp "$file" "$files/admission/"
done
