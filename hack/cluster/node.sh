#!/bin/bash
# A node: runs as the first process of its machine (see start_machine) in its network namespace, for node $1 of zone
# $2, which is number $3, with the binaries in $4. The directories that a node writes to are its own, below $state/nodes.
set -euo pipefail
source "$(dirname "$0")/lib.sh"
name=$1 zone=$2 number=$3 bin=$4
at=$state/nodes/$name
export PATH=$bin:$PATH:/usr/sbin:/sbin

hostname "$name"
mkdir -p "$at"/{etc,containerd,volumes}
mount -t tmpfs -o mode=755 tmpfs /run # sockets
mkdir -p /run/lock
for dir in /var/lib/kubelet /var/log /var/lib/cni /etc/cni; do
	mkdir -p "$dir" "$at$dir"
	mount --bind "$at$dir" "$dir"
done
mount --make-shared /run
mount --make-shared /var/lib/kubelet

mkdir -p /etc/cni/net.d
cat >/etc/cni/net.d/10-pods.conflist <<END
{"cniVersion": "1.0.0", "name": "pods", "plugins": [
  {"type": "bridge", "bridge": "cni0", "isGateway": true, "hairpinMode": true,
   "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.244.$number.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}},
  {"type": "portmap", "capabilities": {"portMappings": true}}
]}
END

cat >"$at/etc/containerd.toml" <<END
version = 3
root = "$at/containerd"
state = "/run/containerd"
disabled_plugins = ["io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs",
  "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.erofs", "io.containerd.snapshotter.v1.blockfile"]
[grpc]
  address = "/run/containerd/containerd.sock"
[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "registry.k8s.io/pause:georegister"
[plugins."io.containerd.cri.v1.runtime"]
  restrict_oom_score_adj = true
  disable_apparmor = true
[plugins."io.containerd.cri.v1.runtime".cni]
  bin_dirs = ["/usr/lib/cni"]
  conf_dir = "/etc/cni/net.d"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
    BinaryName = "$(command -v runc)"
    SystemdCgroup = false
END

echo "nameserver 127.0.0.1" >"$at/etc/resolv.conf" # CoreDNS forwards nothing: there is nothing to reach
cat >"$at/etc/kubelet.yaml" <<END
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: $state/pki/ca.crt}}
authorization: {mode: Webhook}
clusterDNS: [$dns_ip]
clusterDomain: cluster.local
resolvConf: $at/etc/resolv.conf
failSwapOn: false
failCgroupV1: false
cgroupDriver: cgroupfs
cgroupRoot: /georegister-$name
enforceNodeAllocatable: [pods]
nodeStatusUpdateFrequency: 4s
nodeLeaseDurationSeconds: 16 # renewed every 4 s
# The disk is shared with whatever else this machine holds; images can't be pulled again.
imageGCHighThresholdPercent: 100
evictionHard: {memory.available: 100Mi, nodefs.available: "1%", imagefs.available: "1%", nodefs.inodesFree: "1%"}
END

cat >"$at/etc/proxy.yaml" <<END
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: iptables
clientConnection: {kubeconfig: $state/pki/proxy.kubeconfig}
clusterCIDR: $pod_cidr
hostnameOverride: $name
conntrack: {maxPerCore: 0} # the machine's own limit stands: a network namespace can't change it
END

for group in $(cgroups "$name"); do
	mkdir -p "$group"
	# A cpuset without CPUs holds no process; only version 1 leaves it to us.
	for file in cpuset.cpus cpuset.mems; do
		[ ! -f "$group/$file" ] || [ ! -f "$group/../$file" ] || cat "$group/../$file" >"$group/$file"
	done
	# A kernel of hack/chaos-mesh/uml has not all of them, and takes none if one is unknown.
	[ ! -f /sys/fs/cgroup/cgroup.controllers ] ||
		for controller in cpu cpuset memory pids; do
			! grep -qw "$controller" /sys/fs/cgroup/cgroup.controllers || echo "+$controller" >/sys/fs/cgroup/cgroup.subtree_control
		done
done

keep "$name-containerd" "$bin/containerd" --config "$at/etc/containerd.toml"
wait_for 30 "containerd of $name" ctr version
for image in "$state"/images/*.tar; do ctr --namespace k8s.io images import "$image" >/dev/null; done
labels=topology.kubernetes.io/zone=$zone,topology.kubernetes.io/region=local
keep "$name-kubelet" "$bin/kubelet" --config "$at/etc/kubelet.yaml" --kubeconfig "$state/pki/$name.kubeconfig" \
	--hostname-override "$name" --node-ip "10.200.$number.10" --cert-dir "$at/etc" --node-labels "$labels"
keep "$name-proxy" "$bin/kube-proxy" --config "$at/etc/proxy.yaml"
wait
