#!/bin/bash
# Starts a cluster in Docker with kind: a control plane and one worker per zone. Run again, it says that it is up.
set -euo pipefail
for tool in docker kind; do
	command -v "$tool" >/dev/null || { echo "kind.sh: $tool is not in PATH; on Linux, make cluster-up needs neither" >&2 && exit 1; }
done
if kind get clusters 2>/dev/null | grep -qx georegister; then
	echo "kind's cluster georegister is up"
else
	kind create cluster --config "$(dirname "$0")/kind.yaml" --wait 3m
fi
echo "Next: make deploy. To remove the cluster: kind delete cluster --name georegister"
