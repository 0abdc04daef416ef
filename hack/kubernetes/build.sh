#!/bin/bash
# Builds the named Kubernetes binaries from source into a cache outside the repository and
# prints its directory as the last line. What is there at the pinned version is skipped.
#
#   hack/kubernetes/build.sh assets          # etcd, kube-apiserver, kubectl: a control plane for tests
#   hack/kubernetes/build.sh cluster         # all that hack/cluster runs
#   hack/kubernetes/build.sh kubectl helm    # these two
#
# Any number of these may run at once: a binary appears whole, by a rename, and is built by one.
set -euo pipefail
cd "$(dirname "$0")"

assets="etcd kube-apiserver kubectl"
nodes="kube-controller-manager kube-scheduler kubelet kube-proxy containerd containerd-shim-runc-v2 ctr coredns"
containerd=github.com/containerd/containerd/v2/cmd

# pin NAME prints package@version. What go.mod pins is built in this module; the others would
# not resolve together with Kubernetes, so each is built in its own module, by `go install`.
pin() {
	case $1 in
	etcd) echo "go.etcd.io/etcd/server/v3@$(pinned go.etcd.io/etcd/server/v3)" ;;
	kube-* | kubectl | kubelet) echo "k8s.io/kubernetes/cmd/$1@$kubernetes" ;;
	containerd | containerd-shim-runc-v2 | ctr) echo "$containerd/$1@v2.4.2" ;;
	coredns) echo github.com/coredns/coredns@v1.15.0 ;;
	helm) echo helm.sh/helm/v4/cmd/helm@v4.3.1 ;;
	kustomize) echo sigs.k8s.io/kustomize/kustomize/v5@v5.8.1 ;;
	*) return 1 ;;
	esac
}

# pinned MODULE prints the version that go.mod requires.
pinned() { awk -v m="$1" '{ sub(/^require /, "") } $1 == m && $2 ~ /^v/ { print $2; exit }' go.mod; }

# build NAME PACKAGE@VERSION leaves the binary in $scratch.
build() {
	local package=${2%@*} version=${2#*@}
	case $1 in
	etcd | kube*) go build -trimpath -ldflags "$stamp" -o "$scratch/$1" "$package" ;;
	*) GOBIN=$scratch go install -trimpath -ldflags "-s -w" "$package@$version" ;;
	esac
}

# provide NAME builds NAME unless the cache has it at its pinned version.
provide() {
	local name=$1 want started
	want=$(pin "$name")
	[ -z "$lock" ] || exec 9>"$dir/.lock-$name"
	[ -z "$lock" ] || flock -n 9 || { echo "$name: waiting for another build of it" && flock 9; } >&2
	if [ -x "$dir/$name" ] && [ "$(cat "$dir/.pin-$name" 2>/dev/null)" = "$want" ]; then return; fi
	echo "$name: building $want" >&2
	started=$SECONDS
	build "$name" "$want"
	mv "$scratch/$name" "$dir/$name"
	echo "$want" >"$scratch/pin" && mv "$scratch/pin" "$dir/.pin-$name"
	echo "$name: built in $((SECONDS - started)) s, $(($(wc -c <"$dir/$name") >> 20)) MiB" >&2
}

kubernetes=$(pinned k8s.io/kubernetes)
stamp="-s -w"
for p in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
	stamp+=" -X $p.gitVersion=$kubernetes -X $p.gitMajor=1 -X $p.gitMinor=$(echo "$kubernetes" | cut -d. -f2) -X $p.gitTreeState=clean"
done

names=
for name in "$@"; do
	case $name in
	assets) names+=" $assets" ;;
	cluster) names+=" $assets $nodes" ;;
	*)
		pin "$name" >/dev/null || { echo "build.sh: no pin for $name; there are: assets, cluster, $assets $nodes helm kustomize" >&2 && exit 2; }
		names+=" $name"
		;;
	esac
done
[ -n "$names" ] || { echo "usage: build.sh assets|cluster|NAME..." >&2 && exit 2; }
command -v go >/dev/null || { echo "build.sh: go is not in PATH; install Go $(awk '$1 == "go" { print $2 }' go.mod) or newer" >&2 && exit 1; }

export CGO_ENABLED=0 GOWORK=off GOFLAGS="-mod=readonly -buildvcs=false"
dir=${GEOREGISTER_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/georegister}/kubernetes-$kubernetes
mkdir -p "$dir"
scratch=$(mktemp -d "$dir/.build-XXXXXX")
trap 'rm -rf "$scratch"' EXIT
lock=$(command -v flock || true) # without it, two at once build the same binary twice and the last rename wins
for name in $names; do provide "$name"; done
echo "$dir"
