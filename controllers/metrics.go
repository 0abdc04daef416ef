package controllers

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"k8s.io/apimachinery/pkg/types"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/controllers/decide/emulation"
	"github.com/georegister/georegister/controllers/world"
)

// metrics are the operator's own; those of reconciles, queues and requests come with controller-runtime.
type metrics struct {
	members *prometheus.GaugeVec
	// declared and measured are the round trips between pairs of sites while their network is emulated.
	declared, measured *prometheus.GaugeVec
	// partitions are those of clusters with masters.
	partitions *prometheus.GaugeVec
}

// roles are all values of the label role.
var roles = []string{
	world.Waiting.String(), world.Learner.String(), world.Voter.String(), world.Removed.String(), "Silent",
}

func newMetrics(registry prometheus.Registerer) *metrics {
	gauge := func(name, help, label string) *prometheus.GaugeVec {
		return promauto.With(registry).NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help},
			[]string{"namespace", "cluster", label})
	}
	return &metrics{
		members: gauge("georegister_operator_members",
			"Members by the role that they reported last; Silent ones did not answer.", "role"),
		declared: gauge("georegister_wan_declared_rtt_seconds",
			"Round trip between two sites that spec.wan declares, while it is emulated.",
			"link"),
		measured: gauge("georegister_wan_measured_rtt_seconds",
			"Shortest round trip between two sites that members measured lately, while the "+
				"network is emulated.", "link"),
		partitions: gauge("georegister_operator_partitions",
			"Shards of clusters with masters: Served by their master, and whole or with less than "+
				"asked for (Degraded), or not at all (Unserved).", "state"),
	}
}

// countMembers counts the members of a cluster.
func (m *metrics) countMembers(cluster types.NamespacedName, members []world.Member) {
	counts := map[string]int{}
	for _, member := range members {
		role := "Silent"
		if member.Report != nil {
			role = member.Report.Role.String()
		}
		counts[role]++
	}
	set(m.members, cluster, roles, counts)
}

// set gives the series of a cluster their values, one for each of the labels.
func set(gauge *prometheus.GaugeVec, cluster types.NamespacedName, labels []string, counts map[string]int) {
	for _, label := range labels {
		gauge.WithLabelValues(cluster.Namespace, cluster.Name, label).Set(float64(counts[label]))
	}
}

// setLinks notes the round trips between the sites of a cluster.
func (m *metrics) setLinks(cluster types.NamespacedName, links []emulation.Link) {
	of := prometheus.Labels{"namespace": cluster.Namespace, "cluster": cluster.Name}
	m.declared.DeletePartialMatch(of) // links may have gone
	m.measured.DeletePartialMatch(of)
	for _, l := range links {
		m.declared.WithLabelValues(cluster.Namespace, cluster.Name, l.Between).Set(l.Declared.Seconds())
		if l.Measured > 0 {
			m.measured.WithLabelValues(cluster.Namespace, cluster.Name, l.Between).Set(l.Measured.Seconds())
		}
	}
}

// countPartitions counts the shards of a cluster with masters.
func (m *metrics) countPartitions(cluster types.NamespacedName, all []v1alpha1.PartitionStatus) {
	if len(all) == 0 {
		m.partitions.DeletePartialMatch(prometheus.Labels{"namespace": cluster.Namespace, "cluster": cluster.Name})
		return
	}
	counts := map[string]int{}
	for _, p := range all {
		switch {
		case !p.Serving:
			counts["Unserved"]++
		case p.Message != "":
			counts["Degraded"]++
		default:
			counts["Served"]++
		}
	}
	set(m.partitions, cluster, []string{"Served", "Degraded", "Unserved"}, counts)
}

// forget drops what is known of a cluster that is no more.
func (m *metrics) forget(cluster types.NamespacedName) {
	for _, gauges := range []*prometheus.GaugeVec{m.members, m.declared, m.measured, m.partitions} {
		gauges.DeletePartialMatch(prometheus.Labels{"namespace": cluster.Namespace, "cluster": cluster.Name})
	}
}
