#!/bin/bash
# Shows, on the cluster that is up and has Chaos Mesh, that delays, partitions and kills do what they say and are undone:
# delays from one pod to one other, then to three others at once, are no shorter than declared, and other links are left
# alone. Prints the round trips. Ends with an error at the first thing that is not so. Takes about two minutes.
set -euo pipefail
source "$(dirname "$0")/lib.sh"
test=chaos-selftest
# shellcheck disable=SC2015 # say does not fail
check() { "${@:2}" && say "ok: $1" || fail "not so: $1 (the namespace $test is left as it is)"; }

address() { kubectl -n $test get pod "$1" -o jsonpath='{.status.podIP}'; }
# ping FROM TO prints the shortest, mean and longest of 40 round trips between two pods, in milliseconds.
ping() {
	kubectl -n $test exec "$1" -- /bin/busybox ping -q -c 40 -i 0.1 -W 1 "$(address "$2")" | sed -n 's#.* = \(.*\) ms$#\1#p'
}
# reaches FROM TO: one packet is enough.
reaches() { kubectl -n $test exec "$1" -- /bin/busybox ping -q -c 1 -W 1 "$(address "$2")" >/dev/null 2>&1; }
unreachable() { ! reaches "$@"; }
# no_less MILLISECONDS FROM TO and no_more take the shortest round trip: a busy machine makes the others longer.
no_less() { local took && took=$(ping "$2" "$3") && say "$2 to $3: $took ms (shortest/mean/longest)" && awk "BEGIN { exit !(${took%%/*} >= $1) }"; }
no_more() { local took && took=$(ping "$2" "$3") && say "$2 to $3: $took ms (shortest/mean/longest)" && awk "BEGIN { exit !(${took%%/*} <= $1) }"; }

# network FROM TO FIELD... makes a NetworkChaos from one pod to another.
network() {
	kubectl apply -f - >/dev/null <<-END
		apiVersion: chaos-mesh.org/v1alpha1
		kind: NetworkChaos
		metadata: {name: $1-$2, namespace: $test}
		spec:
		  mode: all
		  selector: {namespaces: [$test], labelSelectors: {pod: $1}}
		  target: {mode: all, selector: {namespaces: [$test], labelSelectors: {pod: $2}}}
		$(printf '  %s\n' "${@:3}")
	END
}
delay() { network "$1" "$2" "action: netem" "direction: to" "delay: {latency: $3}"; }
injected() { kubectl -n $test wait networkchaos --all --for condition=AllInjected --timeout 60s >/dev/null; }
clear_up() { kubectl -n $test delete networkchaos --all --timeout 60s >/dev/null; }
delayers() { for pod in $(kubectl -n $namespace get pods -l app.kubernetes.io/component=chaos-daemon -o name); do kubectl -n $namespace exec "$pod" -- tc delayers; done; }
no_delayers() { [ -z "$(delayers)" ]; }
killed() { [ "$(kubectl -n $test get pod victim-0 -o jsonpath='{.metadata.uid}{.status.phase}')" != "$1Running" ]; }

say "starting pods on all nodes"
kubectl delete namespace $test --ignore-not-found --timeout 60s >/dev/null
kubectl create namespace $test >/dev/null
mapfile -t at < <(kubectl get nodes -o name | sed 's#.*/##')
i=0
for pod in a b c d e; do
	kubectl -n $test apply -f - >/dev/null <<-END
		apiVersion: v1
		kind: Pod
		metadata: {name: $pod, labels: {pod: $pod}}
		spec:
		  nodeName: ${at[$((i++ % ${#at[@]}))]}
		  terminationGracePeriodSeconds: 1
		  containers:
		  - {name: shell, image: "georegister-client:dev", securityContext: {runAsUser: 0}} # ping takes a raw socket
	END
done
kubectl -n $test apply -f - >/dev/null <<-END
	apiVersion: apps/v1
	kind: StatefulSet
	metadata: {name: victim}
	spec:
	  selector: {matchLabels: {pod: victim}}
	  serviceName: victim
	  template:
	    metadata: {labels: {pod: victim}}
	    spec:
	      terminationGracePeriodSeconds: 1
	      containers: [{name: shell, image: "georegister-client:dev"}]
END
kubectl -n $test wait pod --all --for condition=Ready --timeout 60s >/dev/null
for to in b c d e; do check "a reaches $to without delay" no_more 5 a $to; done

say "delaying a to b by 90 ms"
delay a b 90ms
check "it is injected" injected
check "the delay is there" no_less 90 a b
check "back and forth is one delay, as the other way has none" no_less 90 b a
for to in c d e; do check "a to $to has none" no_more 5 a $to; done
check "c to b has none" no_more 5 c b

say "delaying a to c by 40 ms and to d by 500 us as well"
delay a c 40ms
delay a d 500us
check "all are injected" injected
check "a to b" no_less 90 a b
check "a to c" no_less 40 a c
check "a to d" no_less 0.5 a d
check "a to e has none" no_more 5 a e
delayers

say "ending the delays"
check "they are removed" clear_up
for to in b c d e; do check "a reaches $to without delay" no_more 5 a $to; done
check "no delayer is left" wait_for 10 "the delayers to end" no_delayers

say "cutting a from b"
network a b "action: partition" "direction: both"
check "it is injected" injected
check "a does not reach b" unreachable a b
check "b does not reach a" unreachable b a
check "a reaches c" reaches a c
check "the cut is removed" clear_up
check "a reaches b" wait_for 10 "the link" reaches a b

say "killing a pod that has a delay"
delay victim b 20ms
check "it is injected" injected
was=$(kubectl -n $test get pod victim-0 -o jsonpath='{.metadata.uid}')
kubectl apply -f - >/dev/null <<-END
	apiVersion: chaos-mesh.org/v1alpha1
	kind: PodChaos
	metadata: {name: kill, namespace: $test}
	spec: {action: pod-kill, mode: one, gracePeriod: 0, selector: {namespaces: [$test], labelSelectors: {pod: victim}}}
END
check "it is killed" wait_for 30 "the kill" killed "$was"
check "its delayer ends with it" wait_for 30 "the delayer to end" no_delayers
kubectl -n $test delete podchaos kill --timeout 60s >/dev/null
check "its successor runs" kubectl -n $test rollout status statefulset/victim --timeout 60s
check "the delay of a pod that is gone can be removed" clear_up

kubectl delete namespace $test --timeout 60s >/dev/null
say "all is well"
