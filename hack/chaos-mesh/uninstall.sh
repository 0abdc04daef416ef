#!/bin/bash
# Ends all experiments and removes Chaos Mesh from the cluster that is up. Run again, it finds nothing to do.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

kinds=$(kubectl get crds -o name | sed -n 's#^customresourcedefinition.apiextensions.k8s.io/\(.*\.chaos-mesh\.org\)$#\1#p')
# Experiments undo what they did when they are deleted, for which Chaos Mesh must still be there. What makes experiments
# goes before them; what the controller makes for a pod goes with the CRDs.
for kind in workflows workflownodes schedules $(grep -v '^pod.\+chaos\.\|^work\|^schedules' <<<"$kinds" || true) podchaos; do
	grep -q "^${kind%%.*}\." <<<"$kinds" || continue
	left=$(kubectl get "${kind%%.*}.chaos-mesh.org" --all-namespaces -o name)
	[ -n "$left" ] || continue
	say "ending $(wc -l <<<"$left") ${kind%%.*}"
	kubectl delete "${kind%%.*}.chaos-mesh.org" --all --all-namespaces --timeout 60s >/dev/null 2>&1 ||
		echo "uninstall.sh: some can't be undone, since their node or Chaos Mesh is gone: their pods keep what was done to them" >&2
done
if helm status chaos-mesh >/dev/null 2>&1; then
	say "removing Chaos Mesh"
	helm uninstall chaos-mesh --wait >/dev/null
fi
# Finalizers of what could not be undone would keep a CRD for ever.
for kind in $kinds; do
	kubectl get "$kind" --all-namespaces -o jsonpath='{range .items[*]}{.metadata.namespace} {.metadata.name}{"\n"}{end}' |
		while read -r space name; do
			kubectl -n "${space:-default}" patch "$kind" "$name" --type merge -p '{"metadata": {"finalizers": null}}' >/dev/null || true
		done
done
# shellcheck disable=SC2086 # a list of words
[ -z "$kinds" ] || kubectl delete crds $kinds --timeout 60s >/dev/null
kubectl delete namespace "$namespace" --ignore-not-found --timeout 60s >/dev/null
say "Chaos Mesh is removed"
