package build

import (
	"fmt"
	"strings"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Runbooks is the page whose sections are named like the alerts.
const Runbooks = "https://github.com/georegister/georegister/blob/main/docs/operations.md"

// fullAt is the share of a volume at which it is called full soon. The store needs room to compact.
const fullAt = 0.8

// alert is a condition that somebody should be told of.
type alert struct {
	name, severity string
	expression     string // PromQL; {} stands for the series of this cluster
	lasting        monitoringv1.Duration
	summary        string
}

func alerts(in Input) []alert {
	n := members(in)
	spare := n
	for _, side := range sides(in) {
		spare = min(spare, in.Cluster.Spec.Tolerated(side))
	}
	all := []alert{
		{
			name: "GeoRegisterQuorumLost", severity: "critical", lasting: "1m",
			expression: `absent(georegister_quorum_reachable{} == 1)`,
			summary:    "No member reaches a quorum: no client is served anywhere.",
		},
		{
			name: "GeoRegisterNoQuorumInReach", severity: "critical", lasting: "2m",
			expression: `georegister_quorum_reachable{} == 0 and on (member) (min by (member) (georegister_shard_voter{}) == 1)`,
			summary: "Member {{ $labels.member }} at site {{ $labels.site }} reaches no quorum: its clients are " +
				"not served.",
		},
		{
			name: "GeoRegisterMemberDown", severity: "warning", lasting: "5m",
			expression: `max by (peer) (georegister_peer_reachable{}) == 0`,
			summary:    "No member reaches member {{ $labels.peer }}.",
		},
		{
			name: "GeoRegisterNoFaultTolerated", severity: "critical", lasting: "5m",
			expression: fmt.Sprintf(`count(min by (member) (georegister_shard_voter{}) == 1) <= %d`, n-spare),
			summary: fmt.Sprintf("Only {{ $value }} of %d members vote: the loss of one more may stop the "+
				"cluster.", n),
		},
		{
			name: "GeoRegisterLearnerStuck", severity: "warning", lasting: "15m",
			expression: `min by (member, site) (georegister_shard_voter{}) == 0`,
			summary: "Member {{ $labels.member }} at site {{ $labels.site }} has been taking over the state for " +
				"long, and does not vote.",
		},
		{
			name: "GeoRegisterOperationsFail", severity: "warning", lasting: "5m",
			expression: `sum(rate(georegister_operations_total{status=~"unavailable|unknown"}[5m])) / sum(rate(georegister_operations_total{}[5m])) > 0.01`,
			summary:    "{{ $value | humanizePercentage }} of the operations end as unavailable or unknown.",
		},
		{
			name: "GeoRegisterSlowCommits", severity: "warning", lasting: "10m",
			expression: `histogram_quantile(0.99, sum by (member, site, le) (rate(georegister_commit_seconds_bucket{}[5m]))) > 0.1`,
			summary: "One commit of a hundred takes {{ $value | humanizeDuration }} at member {{ $labels.member " +
				"}}, site {{ $labels.site }}: its disk is slow.",
		},
		{
			name: "GeoRegisterMessagesDropped", severity: "warning", lasting: "10m",
			expression: `sum by (member, site) (rate(georegister_messages_overflow_total{}[5m])) > 0`,
			summary:    "Member {{ $labels.member }} at site {{ $labels.site }} drops messages: it is overloaded.",
		},
	}
	if in.Cluster.Spec.Partitioned() {
		all = append(all, alert{
			name: "GeoRegisterShardNotServed", severity: "critical", lasting: "1m",
			expression: `max by (partition) (georegister_partition_serving{}) == 0`,
			summary:    "Shard {{ $labels.partition }} has no master that serves: its keys can't be read or written.",
		}, alert{
			name: "GeoRegisterWitnessDown", severity: "warning", lasting: "5m",
			expression: `max by (witness) (georegister_witness_reachable{}) == 0`,
			summary:    "No member reaches witness {{ $labels.witness }}.",
		})
	}
	if OnDisk(in.Cluster) {
		size := in.Cluster.Spec.Storage.StorageSize()
		all = append(all, alert{
			name: "GeoRegisterDiskFilling", severity: "warning", lasting: "10m",
			expression: fmt.Sprintf(`max by (member, site) (georegister_storage_bytes{}) > %.0f`,
				fullAt*size.AsApproximateFloat64()),
			summary: fmt.Sprintf("The state of member {{ $labels.member }} at site {{ $labels.site }} has {{ $value "+
				"| humanize1024 }}B, of a volume of %s.",
				size.String()),
		})
	}
	return all
}

// rule is an alert about one cluster: others have rules of their own.
func (a alert) rule(in Input) monitoringv1.Rule {
	cluster := fmt.Sprintf(`namespace="%s",%s="%s"`, in.Cluster.Namespace, clusterSeries, in.Cluster.Name)
	expression := strings.NewReplacer("{}", "{"+cluster+"}", "{status", "{"+cluster+",status").Replace(a.expression)
	return monitoringv1.Rule{
		Alert: a.name,
		Expr:  intstr.FromString(expression),
		For:   &a.lasting,
		Labels: map[string]string{
			"severity": a.severity, "namespace": in.Cluster.Namespace, clusterSeries: in.Cluster.Name,
		},
		Annotations: map[string]string{
			"summary": fmt.Sprintf("GeoRegisterCluster %s/%s: %s", in.Cluster.Namespace,
				in.Cluster.Name, a.summary),
			"runbook_url": Runbooks + "#" + strings.ToLower(a.name),
		},
	}
}
