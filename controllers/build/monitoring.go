package build

import (
	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const monitoringVersion = "monitoring.coreos.com/v1"

// Labels that the PodMonitor gives to every series, for alerts and dashboards. Prometheus itself adds namespace
// and pod.
const (
	clusterSeries = "georegister_cluster" // "cluster" often names the Kubernetes cluster
	siteSeries    = "site"
	memberSeries  = "member"
)

// monitoring are the objects of the Prometheus operator, of those kinds that the apiserver has.
func monitoring(in Input) []client.Object {
	return ofKinds(in, podMonitor(in), prometheusRule(in))
}

// monitoringNames are the same objects by name alone.
func monitoringNames(in Input) []client.Object {
	meta := metav1.ObjectMeta{Name: MonitoringName(in.Cluster.Name), Namespace: in.Cluster.Namespace}
	return ofKinds(in,
		&monitoringv1.PodMonitor{TypeMeta: kind(monitoringVersion, monitoringv1.PodMonitorsKind), ObjectMeta: meta},
		&monitoringv1.PrometheusRule{
			TypeMeta: kind(monitoringVersion, monitoringv1.PrometheusRuleKind), ObjectMeta: meta,
		})
}

// ofKinds leaves out what the apiserver has no kind for.
func ofKinds(in Input, pods, rules client.Object) (objects []client.Object) {
	if in.Monitoring.PodMonitor {
		objects = append(objects, pods)
	}
	if in.Monitoring.PrometheusRule {
		objects = append(objects, rules)
	}
	return objects
}

// podMonitor has every member scraped, ready or not: one that is not is worth looking at; and the witness beside it.
func podMonitor(in Input) *monitoringv1.PodMonitor {
	ports := []string{HTTPPortName}
	if in.Cluster.Spec.Partitioned() {
		ports = append(ports, WitnessHTTPPortName)
	}
	var endpoints []monitoringv1.PodMetricsEndpoint
	for _, port := range ports {
		endpoints = append(endpoints, monitoringv1.PodMetricsEndpoint{
			Port: &port,
			Path: "/metrics",
			RelabelConfigs: []monitoringv1.RelabelConfig{
				fromPod("georegister_io_cluster", clusterSeries),
				fromPod("georegister_io_site", siteSeries),
				fromPod("georegister_io_member", memberSeries),
			},
		})
	}
	return &monitoringv1.PodMonitor{
		TypeMeta: kind(monitoringVersion, monitoringv1.PodMonitorsKind),
		ObjectMeta: owned(in, MonitoringName(in.Cluster.Name),
			joined(in.Cluster.Spec.Monitoring.Labels, Labels(in.Cluster.Name))),
		Spec: monitoringv1.PodMonitorSpec{
			Selector:            metav1.LabelSelector{MatchLabels: selected(in.Cluster.Name)},
			PodMetricsEndpoints: endpoints,
		},
	}
}

// fromPod gives series the value of a label of their pod, as Prometheus spells it.
func fromPod(label monitoringv1.LabelName, series string) monitoringv1.RelabelConfig {
	return monitoringv1.RelabelConfig{
		SourceLabels: []monitoringv1.LabelName{"__meta_kubernetes_pod_label_" + label}, TargetLabel: series,
	}
}

// prometheusRule has the alerts.
func prometheusRule(in Input) *monitoringv1.PrometheusRule {
	group := monitoringv1.RuleGroup{Name: "georegister"}
	for _, a := range alerts(in) {
		group.Rules = append(group.Rules, a.rule(in))
	}
	return &monitoringv1.PrometheusRule{
		TypeMeta: kind(monitoringVersion, monitoringv1.PrometheusRuleKind),
		ObjectMeta: owned(in, MonitoringName(in.Cluster.Name),
			joined(in.Cluster.Spec.Monitoring.Labels, Labels(in.Cluster.Name))),
		Spec: monitoringv1.PrometheusRuleSpec{Groups: []monitoringv1.RuleGroup{group}},
	}
}
