#!/bin/bash
# Makes the cluster's network out of namespaces: a router, and a link to it from the control plane and from each node.
# Nothing is added to this machine's own network, and nothing in there reaches out of it.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

add() {
	ip netns add "$(netns "$1")"
	inside "$1" ip link set lo up
	inside "$1" sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.disable_ipv6=1
}

# link NAME NUMBER INTERFACE joins a namespace to the router.
link() {
	ip link add eth0 netns "$(netns "$1")" type veth peer name "$3" netns "$(netns router)"
	inside "$1" ip address add "10.200.$2.10/24" dev eth0
	inside "$1" ip link set eth0 up
	inside router ip address add "10.200.$2.1/24" dev "$3"
	inside router ip link set "$3" up
	inside "$1" ip route add default via "10.200.$2.1"
}

add router
add control
link control 0 control
number=0
for node in $nodes; do
	name=${node%:*} zone=${node#*:} number=$((number + 1))
	add "$name"
	inside "$name" sysctl -qw net.bridge.bridge-nf-call-iptables=1
	link "$name" "$number" "$zone-$name" # zone.sh cuts a zone by the start of this interface's name
	inside router ip route add "10.244.$number.0/24" via "10.200.$number.10"
done
