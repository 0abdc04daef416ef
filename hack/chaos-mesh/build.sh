#!/bin/bash
# Builds Chaos Mesh from source, at the version whose API the operator uses, into a cache outside the repository, and prints
# where it is as the last line. What is there at the pinned version is skipped, but for images.
#
#   hack/chaos-mesh/build.sh crds         # a directory with its CRDs: seconds, for tests with no daemon
#   hack/chaos-mesh/build.sh controller   # the directory with chaos-controller-manager
#   hack/chaos-mesh/build.sh daemon       # the directory with chaos-daemon, which needs a C compiler
#   hack/chaos-mesh/build.sh images       # both as images, in the format of `docker save`; Linux only
#   hack/chaos-mesh/build.sh chart        # its Helm chart
#
# Any number of these may run at once.
set -euo pipefail
cd "$(dirname "$0")"
controller_gen=sigs.k8s.io/controller-tools/cmd/controller-gen@v0.23.0
main=github.com/chaos-mesh/chaos-mesh
registry=georegister.local # no registry has this name: a node has the image, or says that it is missing

usage() { sed -n '5,9s/^#   //p' "$0" >&2 && exit 2; }
fail() { echo "build.sh: $*" >&2 && exit 1; }

# need COMMAND PACKAGE... installs Debian's packages if a command is missing.
need() {
	local command=$1
	shift
	command -v "$command" >/dev/null && return
	command -v apt-get >/dev/null || fail "$command is missing: install what Debian calls $*"
	echo "installing $*" >&2
	{ apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "$@"; } >&2
}

# once NAME COMMAND... runs a command with a path, unless the cache has that path at this version; the command must leave
# a file or a directory there, which then appears in the cache whole.
once() {
	local name=$1 started=$SECONDS
	shift
	exec 9>"$dir/.lock-$name"
	flock -n 9 || { echo "$name: waiting for another build of it" && flock 9; } >&2
	[ ! -e "$dir/$name" ] || return 0
	echo "$name: building" >&2
	"$@" "$scratch/$name"
	mv "$scratch/$name" "$dir/$name"
	echo "$name: built in $((SECONDS - started)) s" >&2
}

program() { go build -trimpath -ldflags "-s -w" -o "$2" "$main/cmd/$1"; }
controller() { once chaos-controller-manager program chaos-controller-manager; }
daemon() {
	need gcc gcc libc6-dev
	CGO_ENABLED=1 once chaos-daemon program chaos-daemon
}

# The CRDs come from the types, as those in Chaos Mesh's chart lag behind them: with these, the apiserver drops fields that
# the controller writes, and no NetworkChaos ever gets further than being created.
generate() {
	GOBIN=$scratch go install "$controller_gen" # built like hack/manifests.sh does, so that one compilation serves both
	"$scratch/controller-gen" crd:ignoreUnexportedFields=true,maxDescLen=0 "paths=$main/api/v1alpha1" "output:crd:dir=$1"
}

# images writes the images. Their tag is made of what is in them, so that a Deployment sees that an image has changed.
images() {
	controller
	daemon
	need ipset ipset
	need iptables-legacy iptables
	need tc iproute2
	need /bin/busybox busybox-static
	go build -trimpath -ldflags "-s -w" -o "$scratch/" ./tc ./nsexec
	(cd ../cluster && go build -trimpath -ldflags "-s -w" -o "$scratch/image" ./image)

	local manager=("$dir/chaos-controller-manager=/usr/local/bin/chaos-controller-manager")
	# The daemon is linked to this machine's C library, and comes with this machine's tools. They are found in the PATH
	# that images have; the real tc comes last there, behind the one that decides whether it can be used.
	local files=("$dir/chaos-daemon=/usr/local/bin/chaos-daemon" "$scratch/tc=/usr/local/bin/tc" "$scratch/nsexec=/usr/local/bin/nsexec"
		/bin/busybox=/bin/busybox)
	local tools=() tool library # Debian has them in a directory that not every PATH names
	for tool in tc ip ipset xtables-legacy-multi; do
		tools+=("$(PATH=$PATH:/usr/sbin:/sbin command -v $tool)")
		files+=("${tools[-1]}=/usr/sbin/$tool")
	done
	for library in $(ldd "$dir/chaos-daemon" "${tools[@]}" | grep -o '/[^ :]* (' | tr -d ' (' | sort -u) /usr/lib/*/xtables/*.so; do
		files+=("$library=$library")
	done
	local links
	links=(-link /usr/sbin/xtables-legacy-multi=/usr/bin/iptables -link /usr/sbin/ip=/usr/bin/ip -link /usr/sbin/ipset=/usr/bin/ipset)
	for tool in sh cat ls ps grep; do links+=(-link "busybox=/bin/$tool"); done

	local tag out=$dir/images
	tag=$(for file in "${manager[@]}" "${files[@]}"; do sha256sum <"${file%%=*}"; done | cat - build.sh ../cluster/image/main.go | sha256sum | cut -c1-12)
	mkdir -p "$out"
	"$scratch/image" -o "$scratch/manager.tar" -t "$registry/chaos-mesh/chaos-mesh:$tag" \
		-entrypoint /usr/local/bin/chaos-controller-manager -dir /tmp "${manager[@]}"
	"$scratch/image" -o "$scratch/daemon.tar" -t "$registry/chaos-mesh/chaos-daemon:$tag" \
		-entrypoint /usr/local/bin/chaos-daemon -dir /run -dir /var/log -dir /tmp "${links[@]}" "${files[@]}"
	mv "$scratch/manager.tar" "$scratch/daemon.tar" "$out/"
	echo "$tag" >"$out/tag"
	echo "$registry" >"$out/registry"
	echo "$out"
}

[ $# = 1 ] || usage
command -v go >/dev/null || fail "go is not in PATH; install Go $(awk '$1 == "go" { print $2 }' go.mod) or newer"
export GOWORK=off GOFLAGS="-mod=readonly -buildvcs=false -trimpath"
export CGO_ENABLED=0
version=$(sed -n "s#^\t$main/api => $main/api ##p" go.mod)
[ -n "$version" ] || fail "go.mod does not pin $main/api"
dir=${GEOREGISTER_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/georegister}/chaos-mesh-$version
mkdir -p "$dir"
scratch=$(mktemp -d "$dir/.build-XXXXXX")
trap 'rm -rf "$scratch"' EXIT
case $1 in
crds)
	once "crds-${controller_gen##*@}" generate
	echo "$dir/crds-${controller_gen##*@}"
	;;
controller)
	controller
	echo "$dir"
	;;
daemon)
	daemon
	echo "$dir"
	;;
images) images ;;
chart) echo "$(go list -m -f '{{.Dir}}' $main)/helm/chaos-mesh" ;;
*) usage ;;
esac
