#!/bin/bash
# images.sh BIN: writes the images that the cluster itself needs into $state/images, with the binaries in BIN:
# pause, CoreDNS, and georegister-client:dev, which has a shell and redis-cli for experiments.
set -euo pipefail
source "$(dirname "$0")/lib.sh"
bin=$1 out=$state/images
mkdir -p "$out"
image() { "$state/bin/image" "$@"; }

image -o "$out/pause.tar" -t registry.k8s.io/pause:georegister -entrypoint /pause -user 65535 "$state/bin/pause=/pause"
image -o "$out/coredns.tar" -t registry.k8s.io/coredns/coredns:georegister -entrypoint /coredns "$bin/coredns=/coredns"

# Debian's redis-cli needs its shared libraries, and the loader that its header names.
client=(/bin/busybox=/bin/busybox "$(command -v redis-cli)=/usr/bin/redis-cli")
for library in $(ldd "$(command -v redis-cli)" | grep -o '/[^ ]*'); do client+=("$library=$library"); done
links=()
for applet in sh cat echo sleep date ls env nslookup wget nc timeout seq head tail grep awk sed true false test hostname ps; do
	links+=(-link "busybox=/bin/$applet")
done
image -o "$out/client.tar" -t georegister-client:dev -entrypoint "/bin/sleep infinity" -user 65532 \
	-dir /tmp "${links[@]}" "${client[@]}"
