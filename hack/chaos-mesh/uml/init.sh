#!/bin/bash
# The first process of a machine of start.sh, whose root is the files of the machine below, read-only. It makes what a
# booted system has, and becomes a node by the script that the other nodes run.
set -u
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
export GEOREGISTER_CLUSTER=$STATE

mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mount -t devtmpfs dev /dev 2>/dev/null
mkdir -p /dev/pts /dev/shm /dev/mqueue
mount -t devpts devpts /dev/pts
mount -t tmpfs tmpfs /dev/shm
mount -t mqueue mqueue /dev/mqueue
mount -t tmpfs tmpfs /tmp
# What a node writes to is in memory, but for its logs, which go below.
for dir in "$STATE/nodes/$NODE" /run /var/lib /var/log /etc/cni; do mount -t tmpfs tmpfs "$dir"; done
mount -t hostfs none "$STATE/log" -o "$STATE/log"

mount --bind /usr/lib/uml/modules /lib/modules
for module in overlay veth bridge br_netfilter sch_netem sch_prio sch_sfq ip_tables iptable_nat iptable_filter iptable_mangle \
	ip6_tables ip6table_nat ip6table_filter ip6table_mangle nf_conntrack_netlink ip_set ip_set_hash_net ip_set_hash_netport ip_set_list_set \
	xt_set xt_CLASSIFY xt_comment xt_conntrack xt_mark xt_addrtype xt_nat xt_MASQUERADE xt_REDIRECT xt_statistic xt_tcpudp xt_multiport xt_recent \
	ipt_REJECT ip6t_REJECT xt_nfacct; do
	modprobe "$module" || echo "module $module is missing"
done
# kube-proxy calls iptables, which Debian makes a front for nftables: these tables are of the other kind.
mount --bind /usr/sbin/xtables-legacy-multi /usr/sbin/xtables-nft-multi
# The kubelet wants to know how fast a CPU is.
sed '/^processor/a cpu MHz\t\t: 2000.000' /proc/cpuinfo >/tmp/cpuinfo
mount --bind /tmp/cpuinfo /proc/cpuinfo

ip link set lo up
ip address add "10.200.$NUMBER.10/24" dev vec0
ip link set vec0 up
ip route add default via "10.200.$NUMBER.1"
sysctl -qw net.ipv4.ip_forward=1 net.bridge.bridge-nf-call-iptables=1 net.ipv6.conf.all.disable_ipv6=1
mount --make-rshared /
# Nothing enters this machine from outside, so load.sh puts images here, and waits until they are gone.
while sleep 1; do
	for image in "$STATE/log/$NODE-load"/*.tar; do
		[ ! -f "$image" ] || { "$BIN/ctr" --namespace k8s.io images import - <"$image" && rm "$image"; }
	done
done &
echo "controllers: $(cat /sys/fs/cgroup/cgroup.controllers)"
echo "booted $(uname -r) in $(cut -d' ' -f1 /proc/uptime) s"
"$(dirname "$0")/../../cluster/node.sh" "$NODE" "$ZONE" "$NUMBER" "$BIN"
echo "the node ended with $?"
echo o >/proc/sysrq-trigger
sleep 5
