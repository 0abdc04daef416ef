#!/usr/bin/env bash
# Copies what the chart shares with config/ into the chart, which must be whole without the repository: the CRDs, what
# the operator may do, the admission policies, and the chaos experiments. Templates read the copies as they are, so that nothing in them is
# taken for a template. A test compares the two (test/chart).
set -euo pipefail
shopt -s nullglob
cd "$(dirname "$0")/.."
files=charts/georegister/files
rm -rf "$files"
mkdir -p "$files/crd" "$files/rbac" "$files/admission" "$files/chaos"
cp config/crd/bases/*.yaml "$files/crd/"
cp config/rbac/role.yaml config/rbac/leader_election_role.yaml "$files/rbac/"
for file in config/admission/*.yaml; do
  [ "${file##*/}" = kustomization.yaml ] || cp "$file" "$files/admission/"
done
for file in config/chaos/*.yaml; do
  case ${file##*/} in
  kustomization.yaml | parameters.yaml | replacements.yaml) ;;
  *) cp "$file" "$files/chaos/" ;;
  esac
done
