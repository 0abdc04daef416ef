#!/bin/bash
# run.sh TESTS: runs the tests whose names match on the cluster that is up, with this checkout's operator; or on one
# that it starts, and removes again.
set -euo pipefail
cd "$(dirname "$0")/../.."
[ $# = 1 ] || { sed -n '2,3s/^# //p' "$0" >&2 && exit 2; }
export GEOREGISTER_CLUSTER=${GEOREGISTER_CLUSTER:-/var/tmp/georegister-cluster}
export KUBECONFIG=$GEOREGISTER_CLUSTER/kubeconfig
scratch=$(mktemp -d) down=
trap 'rm -rf "$scratch"; $down' EXIT
if [ ! -e "$GEOREGISTER_CLUSTER/nodes.list" ]; then
	down=hack/cluster/down.sh
	hack/cluster/up.sh
fi
${MAKE:-make} deploy
build=("${GO:-go}" build -trimpath -buildvcs=false -ldflags "-s -w")
(cd hack/cluster && CGO_ENABLED=0 GOWORK=off "${build[@]}" -o "$scratch/image" ./image)
CGO_ENABLED=0 "${build[@]}" -o "$scratch/load" ./test/cluster/load
"$scratch/image" -o "$scratch/load.tar" -t georegister-load:dev -entrypoint /load -user 65532 -dir /data "$scratch/load=/load"
hack/cluster/load.sh "$scratch/load.tar"
PATH=$(hack/kubernetes/build.sh kubectl | tail -1):$PATH
"${GO:-go}" test -tags cluster -count 1 -v -timeout 45m -run "$1" ./test/cluster
