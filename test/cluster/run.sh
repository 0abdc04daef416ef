#!/bin/bash
# run.sh TESTS: runs the tests whose names match on the cluster that is up, with this checkout's operator; or on one
# that it starts, and removes again.
set -euo pipefail
cd "$(dirname "$0")/../.."
[ $# = 1 ] || { sed -n '2,3s/^# //p' "$0" >&2 && exit 2; }
export GEOREGISTER_CLUSTER=${GEOREGISTER_CLUSTER:-/var/tmp/georegister-cluster}
export KUBECONFIG=$GEOREGISTER_CLUSTER/kubeconfig
if [ ! -e "$GEOREGISTER_CLUSTER/nodes.list" ]; then
	trap 'hack/cluster/down.sh' EXIT
	hack/cluster/up.sh
fi
${MAKE:-make} deploy
PATH=$(hack/kubernetes/build.sh kubectl | tail -1):$PATH
"${GO:-go}" test -tags cluster -count 1 -v -timeout 30m -run "$1" ./test/cluster
