#!/bin/bash
# The control plane: runs as the first process of its machine (see start_machine), with the binaries in $1.
set -euo pipefail
source "$(dirname "$0")/lib.sh"
bin=$1 pki=$state/pki
hostname georegister-control

# component NAME FLAGS... runs a part of Kubernetes that talks to the apiserver as its own user.
component() {
	keep "kube-$1" inside control "$bin/kube-$1" --kubeconfig "$pki/$1.kubeconfig" --leader-elect=false \
		--authentication-kubeconfig "$pki/$1.kubeconfig" --authorization-kubeconfig "$pki/$1.kubeconfig" "${@:2}"
}

etcd=(
	--data-dir "$state/etcd" --log-level warn
	--unsafe-no-fsync # the cluster is gone with the machine anyway, and does without the disk's latency
	--listen-client-urls http://127.0.0.1:2379 --advertise-client-urls http://127.0.0.1:2379
	--listen-peer-urls http://127.0.0.1:2380
)
keep etcd inside control "$bin/etcd" "${etcd[@]}"

# shellcheck disable=SC2054 # Node,RBAC is one word
apiserver=(
	--etcd-servers http://127.0.0.1:2379 --advertise-address "$control_ip" --secure-port 6443
	--service-cluster-ip-range "$service_cidr" --allow-privileged
	--client-ca-file "$pki/ca.crt" --tls-cert-file "$pki/apiserver.crt" --tls-private-key-file "$pki/apiserver.key"
	--authorization-mode Node,RBAC --enable-admission-plugins NodeRestriction
	--service-account-issuer https://kubernetes.default.svc
	--service-account-key-file "$pki/service-account.pub" --service-account-signing-key-file "$pki/service-account.key"
	# Logs and exec: node names resolve nowhere.
	--kubelet-client-certificate "$pki/admin.crt" --kubelet-client-key "$pki/admin.key"
	--kubelet-preferred-address-types InternalIP
	# Webhooks and aggregated APIs: no kube-proxy runs beside the apiserver, so it must reach pods itself.
	--enable-aggregator-routing
	--proxy-client-cert-file "$pki/front-proxy.crt" --proxy-client-key-file "$pki/front-proxy.key"
	--requestheader-client-ca-file "$pki/ca.crt" --requestheader-allowed-names front-proxy
	--requestheader-username-headers X-Remote-User --requestheader-group-headers X-Remote-Group
	--requestheader-extra-headers-prefix X-Remote-Extra-
)
keep kube-apiserver inside control "$bin/kube-apiserver" "${apiserver[@]}"

# The only way in: a port of this machine's loopback, and a socket file between the two network namespaces.
keep forward inside control socat "UNIX-LISTEN:$state/run/apiserver.sock,fork,unlink-early,mode=600" "TCP:$control_ip:6443"
keep forward socat "TCP-LISTEN:$port,bind=127.0.0.1,reuseaddr,fork" "UNIX-CONNECT:$state/run/apiserver.sock"

ready() { inside control "$bin/kubectl" --kubeconfig "$pki/admin.kubeconfig" get --raw /readyz; }
wait_for 60 "the apiserver" ready

# A node that stops reporting counts as lost after 20 s: the default of 40 s makes every experiment longer.
component controller-manager --node-monitor-grace-period 20s --use-service-account-credentials \
	--service-account-private-key-file "$pki/service-account.key" --root-ca-file "$pki/ca.crt" \
	--allocate-node-cidrs=false
component scheduler
keep provisioner inside control "$state/bin/provisioner" --kubeconfig "$pki/provisioner.kubeconfig" --root "$state/nodes"
wait
