package build

import (
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// networkPolicy keeps the ports that trust whoever calls from everybody else: peers are the members, the admin port is
// the operator's, and witnesses are for both. Clients and Prometheus may come from anywhere; a user who wants less adds
// a policy of his own for pods of other labels, or an egress policy where the clients are. What members may call is not
// restricted.
func networkPolicy(in Input) *networkingv1.NetworkPolicy {
	theMembers, theOperator := theMembers(in), theOperator(in)
	ingress := []networkingv1.NetworkPolicyIngressRule{
		allow([]networkingv1.NetworkPolicyPeer{theMembers}, named(PeerPortName)),
		allow([]networkingv1.NetworkPolicyPeer{theOperator}, named(AdminPortName)),
		allow(nil, named(RedisPortName), named(GRPCPortName), named(HTTPPortName)),
	}
	// By their numbers: not everything looks for names in sidecars.
	if in.Cluster.Spec.Partitioned() && !in.Cluster.Spec.Dedicated() {
		ingress = append(ingress,
			allow([]networkingv1.NetworkPolicyPeer{theMembers, theOperator}, intstr.FromInt32(WitnessPort)),
			allow(nil, intstr.FromInt32(WitnessHTTPPort)))
	}
	return ingressPolicy(in, MembersName(in.Cluster.Name), Labels(in.Cluster.Name), replicas(in.Cluster), ingress...)
}

// ingressPolicy lets nothing reach the selected pods but what the rules say.
func ingressPolicy(
	in Input, name string, labels, selector map[string]string, rules ...networkingv1.NetworkPolicyIngressRule,
) *networkingv1.NetworkPolicy {
	return &networkingv1.NetworkPolicy{
		TypeMeta:   kind("networking.k8s.io/v1", "NetworkPolicy"),
		ObjectMeta: owned(in, name, labels),
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchLabels: selector},
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
			Ingress:     rules,
		},
	}
}

func theMembers(in Input) networkingv1.NetworkPolicyPeer {
	return networkingv1.NetworkPolicyPeer{PodSelector: &metav1.LabelSelector{MatchLabels: replicas(in.Cluster)}}
}

func theOperator(in Input) networkingv1.NetworkPolicyPeer {
	return networkingv1.NetworkPolicyPeer{
		NamespaceSelector: &metav1.LabelSelector{
			MatchLabels: map[string]string{corev1.LabelMetadataName: in.Settings.Namespace},
		},
		PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{NameLabel: OperatorName}},
	}
}

// allow lets some, or with no one named everybody, reach ports.
func allow(from []networkingv1.NetworkPolicyPeer, ports ...intstr.IntOrString) networkingv1.NetworkPolicyIngressRule {
	rule := networkingv1.NetworkPolicyIngressRule{From: from}
	for _, port := range ports {
		rule.Ports = append(rule.Ports, networkingv1.NetworkPolicyPort{Protocol: new(corev1.ProtocolTCP), Port: &port})
	}
	return rule
}

func named(port string) intstr.IntOrString { return intstr.FromString(port) }
