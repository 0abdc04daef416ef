package plugin

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/georegister/georegister/api/v1alpha1"
)

// recentEvents is how many events a status shows.
const recentEvents = 8

// good says which status of a condition is as it should be. The others are news only where they say False (or, for
// Degraded, Progressing, Paused, Stalled and QuorumLost, True) or Unknown.
var good = map[string]metav1.ConditionStatus{
	v1alpha1.ConditionReady: metav1.ConditionTrue, v1alpha1.ConditionStalled: metav1.ConditionFalse,
	v1alpha1.ConditionAvailable: metav1.ConditionTrue, v1alpha1.ConditionQuorumHealthy: metav1.ConditionTrue,
	v1alpha1.ConditionViewKnown: metav1.ConditionTrue, v1alpha1.ConditionToleratesZoneLoss: metav1.ConditionTrue,
	v1alpha1.ConditionMonitoringReady: metav1.ConditionTrue, v1alpha1.ConditionPartitionsServing: metav1.ConditionTrue,
	v1alpha1.ConditionProgressing: metav1.ConditionFalse, v1alpha1.ConditionDegraded: metav1.ConditionFalse,
	v1alpha1.ConditionPaused: metav1.ConditionFalse, v1alpha1.ConditionQuorumLost: metav1.ConditionFalse,
}

// Status prints how the cluster of a name is, or all of the namespace if it is empty.
func (k *Kubernetes) Status(ctx context.Context, out io.Writer, name string) error {
	clusters, err := k.clusters(ctx)
	if err != nil {
		return err
	}
	if name != "" || len(clusters) == 0 {
		one, err := k.cluster(ctx, name)
		if err != nil {
			return err
		}
		clusters = []v1alpha1.GeoRegisterCluster{*one}
	}
	for i := range clusters {
		if i > 0 {
			fmt.Fprintln(out)
		}
		events, err := k.events(ctx, &clusters[i])
		if err != nil {
			return err
		}
		if err := describe(out, &clusters[i], events, time.Now()); err != nil {
			return err
		}
	}
	return nil
}

// events are the latest ones of a cluster, the oldest first.
func (k *Kubernetes) events(ctx context.Context, c *v1alpha1.GeoRegisterCluster) ([]eventsv1.Event, error) {
	var list eventsv1.EventList
	if err := k.Client.List(ctx, &list, client.InNamespace(c.Namespace)); err != nil {
		return nil, fmt.Errorf("list the events of namespace %s: %w", c.Namespace, err)
	}
	var ours []eventsv1.Event
	for _, e := range list.Items {
		if e.Regarding.Kind == v1alpha1.Kind && e.Regarding.Name == c.Name &&
			(e.Regarding.UID == "" || e.Regarding.UID == c.UID) {
			ours = append(ours, e)
		}
	}
	slices.SortStableFunc(ours, func(a, b eventsv1.Event) int { return eventTime(a).Compare(eventTime(b)) })
	return ours[max(0, len(ours)-recentEvents):], nil
}

// eventTime is when an event happened last.
func eventTime(e eventsv1.Event) time.Time {
	switch {
	case e.Series != nil:
		return e.Series.LastObservedTime.Time
	case !e.EventTime.IsZero():
		return e.EventTime.Time
	}
	return e.DeprecatedLastTimestamp.Time
}

// describe writes the status of a cluster in words.
func describe(out io.Writer, c *v1alpha1.GeoRegisterCluster, events []eventsv1.Event, now time.Time) error {
	s := c.Status
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "%s/%s: %s, %s\n", c.Namespace, c.Name, c.Spec.Protocol, summary(c))
	if s.ObservedGeneration == 0 {
		fmt.Fprintln(w,
			"no operator has looked at it yet: see `kubectl georegister operator`, and that it watches this namespace")
		return w.Flush()
	}
	if s.ObservedGeneration < c.Generation {
		fmt.Fprintln(w, "the last change of the resource was not looked at yet; what follows is from before")
	}
	if v := s.View; v != nil {
		fmt.Fprintf(w, "view: epoch %d, %d members, %d are a majority", v.Epoch, v.Members, v.Majority)
		if v.FastQuorum != nil {
			fmt.Fprintf(w, ", %d a fast quorum", *v.FastQuorum)
		}
		fmt.Fprintf(w, "; data %s\n", v.ClusterID)
	}
	if s.Change != nil {
		describeChange(w, s.Change, now)
	}
	if r := s.Recovered; r != nil {
		who := fmt.Sprintf("member %d was trusted", r.TrustedMember)
		if r.TrustedMember == 0 {
			who = "all members that were left went on"
		}
		fmt.Fprintf(w, "recovered %s ago from the lost quorum of epoch %d: %s, given up were %s: %s\n",
			duration.HumanDuration(now.Sub(r.Time.Time)), r.Epoch, who, numbers(r.GivenUp), r.Message)
	}
	for _, condition := range s.Conditions {
		// that repeats another one
		if condition.Status == good[condition.Type] || condition.Type == v1alpha1.ConditionReady {
			continue
		}
		fmt.Fprintf(w, "%s is %s (%s): %s\n", condition.Type, condition.Status, condition.Reason, condition.Message)
	}
	fmt.Fprintln(w)
	fmt.Fprintln(w, "MEMBER\tSITE\tROLE\tINCARNATION\tPOD\tNODE\tVERSION\tSTATE")
	for _, m := range s.Members {
		fmt.Fprintf(w, "%d\t%s\t%s\t%d\t%s\t%s\t%s\t%s\n", m.ID, m.Site, cmp.Or(m.Role, "-"),
			m.Incarnation, cmp.Or(m.Pod, "-"), cmp.Or(m.Node, "-"), cmp.Or(m.Version, "-"), state(c, m))
	}
	describePartitions(w, s.Partitions)
	if len(events) > 0 {
		fmt.Fprintln(w)
		fmt.Fprintln(w, "AGO\tTYPE\tREASON\tEVENT")
	}
	for _, e := range events {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", duration.HumanDuration(now.Sub(eventTime(e))), e.Type, e.Reason, e.Note)
	}
	return w.Flush()
}

// describePartitions writes who keeps each shard, of protocols with masters.
func describePartitions(w io.Writer, all []v1alpha1.PartitionStatus) {
	if len(all) == 0 {
		return
	}
	fmt.Fprintln(w)
	fmt.Fprintln(w, "PARTITION\tTERM\tMASTER\tBACKUPS\tWITNESSES\tFAST\tUNSYNCED\tSTATE")
	for _, p := range all {
		fast, unsynced := "-", "-"
		if p.FastPathPercent != nil {
			fast = fmt.Sprintf("%d%%", *p.FastPathPercent)
		}
		if p.Unsynced != nil {
			unsynced = fmt.Sprint(*p.Unsynced)
		}
		doing := "serves"
		switch {
		case !p.Serving:
			doing = "NOT served: " + p.Message
		case p.Message != "":
			doing = "serves; " + p.Message
		}
		fmt.Fprintf(w, "%d\t%d\t%d\t%s\t%s\t%s\t%s\t%s\n", p.Number, p.Term, p.Master, numbers(p.Backups),
			numbers(p.Witnesses), fast, unsynced, doing)
	}
}

// describeChange writes the change of members that is under way.
func describeChange(w io.Writer, c *v1alpha1.ChangeStatus, now time.Time) {
	fmt.Fprintf(w, "change since %s: %s", duration.HumanDuration(now.Sub(c.Since.Time)), c.Step)
	if c.Percent != nil {
		fmt.Fprintf(w, " %d%%", *c.Percent)
	}
	fmt.Fprintf(w, "; joining %s, leaving %s", numbers(c.Joining), numbers(c.Leaving))
	if c.Settled != "" {
		fmt.Fprintf(w, "; settled %s", c.Settled)
	}
	if c.Fetched != "" {
		fmt.Fprintf(w, "; fetched %s, %s, about %s to go", c.Fetched, size(c.Bytes), size(c.RemainingBytes))
	}
	if c.Message != "" {
		fmt.Fprintf(w, ": %s", c.Message)
	}
	fmt.Fprintln(w)
}

// numbers are members by their numbers.
func numbers(ids []int32) string {
	if len(ids) == 0 {
		return "nobody"
	}
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(ids), " ", ", "), "[]")
}

// size is bytes in a unit that people read.
func size(bytes int64) string {
	for i, unit := range []string{"GiB", "MiB", "KiB"} {
		if least := int64(1) << (30 - 10*i); bytes >= least {
			return fmt.Sprintf("%.1f %s", float64(bytes)/float64(least), unit)
		}
	}
	return fmt.Sprintf("%d B", bytes)
}

// state is what a member does, and whether it comes or goes.
func state(c *v1alpha1.GeoRegisterCluster, m v1alpha1.MemberStatus) string {
	change := c.Status.Change
	switch {
	case change != nil && slices.Contains(change.Joining, int32(m.ID)):
		return "joins: " + m.State
	case change != nil && slices.Contains(change.Leaving, int32(m.ID)):
		return "leaves: " + m.State
	}
	return m.State
}

// summary is the first thing to know.
func summary(c *v1alpha1.GeoRegisterCluster) string {
	available := meta.FindStatusCondition(c.Status.Conditions, v1alpha1.ConditionAvailable)
	switch {
	case meta.IsStatusConditionTrue(c.Status.Conditions, v1alpha1.ConditionQuorumLost):
		return "QUORUM LOST, which only spec.recovery ends (docs/operations.md)"
	case available == nil || available.Status == metav1.ConditionUnknown:
		return "nothing is known of it"
	case available.Status == metav1.ConditionFalse:
		return "NOT serving: " + available.Message
	}
	words := []string{"serving"}
	for _, news := range []struct{ condition, word string }{
		{v1alpha1.ConditionDegraded, "degraded"}, {v1alpha1.ConditionProgressing, "changing"},
		{v1alpha1.ConditionPaused, "paused"},
		{v1alpha1.ConditionStalled, "stalled"},
	} {
		if meta.IsStatusConditionTrue(c.Status.Conditions, news.condition) {
			words = append(words, news.word)
		}
	}
	return fmt.Sprintf("%s, %s members ready", strings.Join(words, ", "), c.Status.Ready)
}

// Sites prints where clients find each site of the cluster, and who serves there.
func (k *Kubernetes) Sites(ctx context.Context, out io.Writer, name string) error {
	c, err := k.cluster(ctx, name)
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "SITE\tREADY\tREDIS\tGRPC\tMEMBERS")
	for _, site := range withLeaving(c.Status) {
		var members []string
		for _, m := range c.Status.Members {
			if m.Site == site.Name {
				members = append(members, fmt.Sprintf("%d on %s (%s)", m.ID, cmp.Or(m.Node, "-"), state(c, m)))
			}
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", site.Name, site.Ready, site.Redis, site.GRPC,
			strings.Join(members, ", "))
	}
	return w.Flush()
}

// withLeaving are the sites, and after them those that are no longer asked for but still have members.
func withLeaving(s v1alpha1.GeoRegisterClusterStatus) []v1alpha1.SiteStatus {
	sites := slices.Clone(s.Sites)
	for _, m := range s.Members {
		if !slices.ContainsFunc(sites, func(site v1alpha1.SiteStatus) bool { return site.Name == m.Site }) {
			sites = append(sites, v1alpha1.SiteStatus{Name: m.Site, Ready: "leaves", Redis: "-", GRPC: "-"})
		}
	}
	return sites
}
