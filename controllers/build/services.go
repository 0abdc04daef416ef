package build

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// peers is the headless Service that names the members' pods in the DNS. Members must find each other before any
// of them is ready, and a learner must find those that it learns from. So are the pods of dedicated witnesses.
func peers(in Input) *corev1.Service {
	ports := []corev1.ServicePort{port(PeerPortName, PeerPort)}
	if in.Cluster.Spec.Partitioned() {
		ports = append(ports, numbered(WitnessPortName, WitnessPort))
	}
	return service(in, PeersName(in.Cluster.Name), Labels(in.Cluster.Name), corev1.ServiceSpec{
		Selector: selected(in.Cluster.Name), ClusterIP: corev1.ClusterIPNone, PublishNotReadyAddresses: true,
		Ports: ports,
	})
}

// site is the Service for the clients of a site. It is headless, so that clients see pods: what emulates a
// wide-area network between pods does not see the traffic of a ClusterIP.
func site(in Input, name string) *corev1.Service {
	return service(in, SiteName(in.Cluster.Name, name), SiteLabels(in.Cluster.Name, name), corev1.ServiceSpec{
		Selector:  joined(replicas(in.Cluster), map[string]string{SiteLabel: name}),
		ClusterIP: corev1.ClusterIPNone,
		Ports:     clientPorts(),
	})
}

// clients is the Service for clients that do not care where they are: any member that is ready, of their own
// zone if there is one.
func clients(in Input) *corev1.Service {
	return service(in, ClientsName(in.Cluster.Name), Labels(in.Cluster.Name), corev1.ServiceSpec{
		Selector:            replicas(in.Cluster),
		Type:                corev1.ServiceTypeClusterIP,
		TrafficDistribution: new(corev1.ServiceTrafficDistributionPreferClose),
		Ports:               clientPorts(),
	})
}

func service(in Input, name string, labels map[string]string, spec corev1.ServiceSpec) *corev1.Service {
	return &corev1.Service{TypeMeta: kind("v1", "Service"), ObjectMeta: owned(in, name, labels), Spec: spec}
}

func clientPorts() []corev1.ServicePort {
	return []corev1.ServicePort{port(RedisPortName, RedisPort), port(GRPCPortName, GRPCPort)}
}

// port is named on both sides, so that a member may listen elsewhere one day.
func port(name string, number int32) corev1.ServicePort {
	return corev1.ServicePort{
		Name: name, Port: number, TargetPort: intstr.FromString(name), Protocol: corev1.ProtocolTCP,
	}
}

// numbered is a port of a sidecar: not everything that resolves the names of ports looks there.
func numbered(name string, number int32) corev1.ServicePort {
	p := port(name, number)
	p.TargetPort = intstr.FromInt32(number)
	return p
}
