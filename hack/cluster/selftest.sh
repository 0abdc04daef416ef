#!/bin/bash
# Shows that the cluster is one: starts it, runs an application in its three zones, cuts a zone off and joins it again,
# and removes it. Ends with an error at the first thing that is not so. Takes about two minutes once Kubernetes is built.
set -euo pipefail
source "$(dirname "$0")/lib.sh"
[ ! -e "$state/nodes.list" ] || fail "a cluster is up; this starts one of its own: run make cluster-down first"
check() { "${@:2}" && say "ok: $1" || fail "not so: $1 (the cluster is still up; logs are in $state/log)"; }

# traces prints all that the cluster could leave on this machine.
traces() {
	ip -o link | awk '{ print "link", $2 }'
	ip netns list | sed 's/^/netns /'
	findmnt -rno TARGET | sed 's/^/mount /'
	find /sys/fs/cgroup -name 'georegister-*' | sed 's/^/cgroup /'
	sysctl vm.overcommit_memory vm.panic_on_oom kernel.panic kernel.panic_on_oops
	ls -d "$state" 2>/dev/null || true
}
# processes NAMESPACE... prints the processes that are in one of these pid namespaces.
processes() {
	local p in
	for p in /proc/[0-9]*; do
		in=$(readlink "$p/ns/pid") || continue # it ended meanwhile
		! grep -qxF "$in" <<<"$*" || echo "$p"
	done
}
free_memory() { awk '$1 == "MemAvailable:" { print int($2 / 1024) }' /proc/meminfo; }

on() { kubectl exec "$@" 2>/dev/null; } # POD -- COMMAND...
fetch() { on "$1" -- curl -sfm 2 "http://$2"; }
resolves() { on "$1" -- nslookup "$2" | grep -q 'Address: 10\.244\.'; }
node_is() { [ "$(kubectl get node "$1" -o jsonpath='{.status.conditions[?(@.type=="Ready")].status}')" = "$2" ]; }
reaches() { [ "$(fetch "$1" "$2" | head -1)" = start ]; }
capacity() { [ "$(kubectl get pvc "$1" -o jsonpath='{.status.capacity.storage}')" = "$2" ]; }
volumes() { find "$state"/nodes/*/volumes -mindepth 1 -maxdepth 1 | wc -l; }
no_volumes() { [ "$(volumes)" = 0 ] && [ -z "$(kubectl get pv -o name)" ]; }
unreachable() { ! reaches "$@"; }

before=$(traces) memory=$(free_memory)
"$here/up.sh"
PATH=$("$repo/hack/kubernetes/build.sh" kubectl | tail -1):$PATH
machines=$(cut -d' ' -f2 "$state"/run/{control,n1,n2,n3})
check "up again changes nothing" "$here/up.sh"

say "starting an application in three zones"
wait_for 30 "the default ServiceAccount" kubectl get serviceaccount default
kubectl apply -f "$here/testdata/app.yaml" >/dev/null
check "three pods with volumes of their own run" kubectl rollout status statefulset/app --timeout 60s
spread=$(kubectl get pods -l app=app -o jsonpath='{range .items[*]}{.spec.nodeName} {end}' | tr ' ' '\n' | grep . | sort -u | wc -l)
check "they run on three nodes" test "$spread" = 3
say "$((memory - $(free_memory))) MiB less memory is available than before the cluster"
pod() { kubectl get pods -l app=app --field-selector "spec.nodeName=$1" -o jsonpath='{.items[0].metadata.name}'; }
one=$(pod n1) two=$(pod n2) three=$(pod n3)
for from in "$one" "$two" "$three"; do
	check "$from resolves the pods of a headless Service" wait_for 15 "DNS" resolves "$from" "$two.app.default.svc.cluster.local"
	check "$from reaches another zone's pod by its name" wait_for 15 "a pod" reaches "$from" "$two.app:8080"
	check "$from reaches a Service by its address" wait_for 15 "a Service" reaches "$from" any
done
check "redis-cli runs in a pod" on "$one" -- redis-cli --version

kubectl patch pvc "data-$two" -p '{"spec": {"resources": {"requests": {"storage": "128Mi"}}}}' >/dev/null
check "a volume grows" wait_for 15 "the growth" capacity "data-$two" 128Mi
kubectl delete pod "$two" --wait >/dev/null
check "a pod starts again" kubectl rollout status statefulset/app --timeout 60s
check "with its volume" test "$(fetch "$one" "$two.app:8080" | wc -l)" = 2

"$state/bin/image" -o "$state/again.tar" -t selftest:dev -entrypoint "/busybox true" /bin/busybox=/busybox
"$here/load.sh" "$state/again.tar"
kubectl run again --image selftest:dev --restart Never >/dev/null
check "an image that was loaded runs" kubectl wait --for 'jsonpath={.status.phase}=Succeeded' pod/again --timeout 30s

say "cutting z2"
"$here/zone.sh" cut z2
check "z1 no longer reaches z2" unreachable "$one" "$two.app:8080"
check "z1 still reaches z3" reaches "$one" "$three.app:8080"
check "z2's node counts as lost" wait_for 60 "the loss" node_is n2 Unknown
"$here/zone.sh" heal z2
check "and comes back" wait_for 60 "the node" node_is n2 True
check "z1 reaches z2 again" wait_for 30 "the pod" reaches "$one" "$two.app:8080"
check "no cut is left" test -z "$("$here/zone.sh" list)"

say "switching n3 off"
"$here/power.sh" off n3
check "z1 no longer reaches z3" unreachable "$one" "$three.app:8080"
check "n3 counts as lost" wait_for 60 "the loss" node_is n3 Unknown
check "up again starts it" "$here/up.sh"
check "it is there" wait_for 60 "the node" node_is n3 True
check "and its pod with it" wait_for 60 "the pod" reaches "$one" "$three.app:8080"

kubectl delete -f "$here/testdata/app.yaml" >/dev/null
check "data stays as long as its claim" test "$(volumes)" = 3
kubectl delete pvc --all >/dev/null
check "data goes with its claim" wait_for 30 "the volumes to be removed" no_volumes

check "processes are found by their namespaces" test -n "$(processes "$machines")"
"$here/down.sh"
check "down again does nothing" "$here/down.sh"
check "no process is left" test -z "$(processes "$machines")"
check "nothing else is left on this machine" diff <(echo "$before") <(traces)
say "all is well"
