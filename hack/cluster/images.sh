#!/bin/bash
# images.sh BIN: writes the images that the cluster itself needs into $state/images, with the binaries in BIN:
# pause, CoreDNS, and georegister-client:dev, which has a shell, redis-cli and curl for experiments.
set -euo pipefail
source "$(dirname "$0")/lib.sh"
bin=$1 out=$state/images
mkdir -p "$out"
image() { "$state/bin/image" "$@"; }

image -o "$out/pause.tar" -t registry.k8s.io/pause:georegister -entrypoint /pause -user 65535 "$state/bin/pause=/pause"
image -o "$out/coredns.tar" -t registry.k8s.io/coredns/coredns:georegister -entrypoint /coredns "$bin/coredns=/coredns"

# Debian's redis-cli and curl need their shared libraries, and the loader that their headers name. A static busybox
# resolves no names and can't stand in for curl: it would need the very C library that it was built with.
client=(/bin/busybox=/bin/busybox)
for tool in redis-cli curl; do client+=("$(command -v $tool)=/usr/bin/$tool"); done
for library in $(ldd "$(command -v redis-cli)" "$(command -v curl)" | grep -o '/[^ :]* (' | tr -d ' (' | sort -u); do
	client+=("$library=$library")
done
links=()
for applet in sh cat echo sleep date ls env nslookup timeout seq head tail grep awk sed true false test hostname ps; do
	links+=(-link "busybox=/bin/$applet")
done
image -o "$out/client.tar" -t georegister-client:dev -entrypoint "/bin/sleep infinity" -user 65532 \
	-dir /tmp "${links[@]}" "${client[@]}"
