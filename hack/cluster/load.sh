#!/bin/bash
# load.sh IMAGE.tar...: loads images (archives in the format of `docker save`) onto every node of the cluster that is
# up: the one of cluster-up, or kind's cluster named georegister.
set -euo pipefail
source "$(dirname "$0")/lib.sh"
[ $# -gt 0 ] || { sed -n '2,3s/^# //p' "$0" >&2 && exit 2; }

if [ -e "$state/nodes.list" ]; then
	bin=$("$repo/hack/kubernetes/build.sh" ctr | tail -1)
	for node in $nodes; do
		for image in "$@"; do
			if [ -e "$state/uml-${node%:*}" ]; then # see hack/chaos-mesh/uml
				mkdir -p "$state/log/${node%:*}-load"
				cp "$image" "$state/log/${node%:*}-load/image.new"
				mv "$state/log/${node%:*}-load/image.new" "$state/log/${node%:*}-load/${image##*/}"
				wait_for 300 "${node%:*} to load ${image##*/}" test ! -e "$state/log/${node%:*}-load/${image##*/}"
				continue
			fi
			said=$(enter "${node%:*}" "$bin/ctr" --namespace k8s.io images import - <"$image" 2>&1) || fail "$image: $said"
			say "loaded ${image##*/} on ${node%:*}"
		done
	done
elif command -v kind >/dev/null && kind get clusters 2>/dev/null | grep -qx georegister; then
	for image in "$@"; do kind load image-archive --name georegister "$image"; done
else
	fail "no cluster is up: run make cluster-up (Linux, root) or make cluster-kind (Docker and kind)"
fi
