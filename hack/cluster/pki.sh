#!/bin/bash
# Makes the cluster's certificates and a kubeconfig for each of its parts, in $state/pki, and the user's kubeconfig.
set -euo pipefail
source "$(dirname "$0")/lib.sh"
mkdir -p "$state/pki" && chmod 700 "$state/pki" && cd "$state/pki"

openssl req -x509 -newkey rsa:2048 -nodes -days 365 -subj /CN=georegister-cluster -keyout ca.key -out ca.crt 2>/dev/null
openssl genrsa -out service-account.key 2048 2>/dev/null
openssl rsa -in service-account.key -pubout -out service-account.pub 2>/dev/null

# certify FILE SUBJECT [NAMES] makes a key and a certificate.
certify() {
	openssl req -newkey rsa:2048 -nodes -subj "$2" -keyout "$1.key" -out "$1.csr" 2>/dev/null
	printf 'extendedKeyUsage=serverAuth,clientAuth\n%s' "${3:+subjectAltName=$3}" |
		openssl x509 -req -in "$1.csr" -CA ca.crt -CAkey ca.key -CAcreateserial -days 365 -extfile /dev/stdin -out "$1.crt" 2>/dev/null
	rm "$1.csr"
}

# config FILE SERVER writes a kubeconfig for the certificate of that name.
config() {
	cat <<-END
		apiVersion: v1
		kind: Config
		current-context: georegister
		contexts: [{name: georegister, context: {cluster: georegister, user: georegister}}]
		clusters: [{name: georegister, cluster: {server: "$2", certificate-authority-data: $(base64 -w0 ca.crt)}}]
		users: [{name: georegister, user: {client-certificate-data: $(base64 -w0 "$1.crt"), client-key-data: $(base64 -w0 "$1.key")}}]
	END
}

# user FILE NAME GROUP makes a certificate that Kubernetes takes for this user, and a kubeconfig.
user() {
	certify "$1" "/O=$3/CN=$2"
	config "$1" "https://$control_ip:6443" >"$1.kubeconfig"
}

names=IP:127.0.0.1,IP:$control_ip,IP:$service_ip,DNS:localhost
for name in kubernetes{,.default{,.svc{,.cluster.local}}}; do names+=,DNS:$name; done
certify apiserver /CN=kube-apiserver "$names"
certify front-proxy /CN=front-proxy
user admin admin system:masters
user provisioner provisioner system:masters
user controller-manager system:kube-controller-manager system:kube-controller-manager
user scheduler system:kube-scheduler system:kube-scheduler
user proxy system:kube-proxy system:node-proxier
for node in $nodes; do user "${node%:*}" "system:node:${node%:*}" system:nodes; done
(umask 077 && config admin "https://127.0.0.1:$port" >"$state/kubeconfig")
