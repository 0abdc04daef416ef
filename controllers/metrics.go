package controllers

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/georegister/georegister/controllers/world"
)

// metrics are the operator's own; those of reconciles, queues and requests come with controller-runtime.
type metrics struct {
	members *prometheus.GaugeVec
}

// roles are all values of the label role.
var roles = []string{world.Waiting.String(), world.Learner.String(), world.Voter.String(), world.Removed.String(), "Silent"}

func newMetrics(registry prometheus.Registerer) (*metrics, error) {
	m := &metrics{members: prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "georegister_operator_members",
		Help: "Members by the role that they reported last; Silent ones did not answer.",
	}, []string{"namespace", "cluster", "role"})}
	if err := registry.Register(m.members); err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	return m, nil
}

// observe counts the members of a cluster.
func (m *metrics) observe(cluster types.NamespacedName, members []world.Member) {
	counts := map[string]int{}
	for _, member := range members {
		role := "Silent"
		if member.Report != nil {
			role = member.Report.Role.String()
		}
		counts[role]++
	}
	for _, role := range roles {
		m.members.WithLabelValues(cluster.Namespace, cluster.Name, role).Set(float64(counts[role]))
	}
}

// forget drops the counts of a cluster that is no more.
func (m *metrics) forget(cluster types.NamespacedName) {
	m.members.DeletePartialMatch(prometheus.Labels{"namespace": cluster.Namespace, "cluster": cluster.Name})
}
