package console

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	adminv1 "github.com/georegister/georegister/api/admin/v1"
	"github.com/georegister/georegister/dev"
	"github.com/georegister/georegister/dev/record"
	"github.com/georegister/georegister/replica/view"
)

// updates counts those of one partition that clients submitted: by the round trips that they took.
type updates struct{ fast, slow uint64 }

// lately adds what a member counted, and returns what it counted since the oldest reading that matters.
func (r *rates) lately(o dev.Observation, now time.Time) []updates {
	var counts []updates
	for _, p := range o.Status.GetPartitions() {
		counts = append(counts, updates{p.Fast, p.Slow})
	}
	oldest := r.updates.add(o, now, counts).count
	counts = slices.Clone(counts)
	for i := range min(len(counts), len(oldest)) { // others are new
		if counts[i].fast < oldest[i].fast || counts[i].slow < oldest[i].slow {
			continue // counted anew in a later view
		}
		counts[i].fast -= oldest[i].fast
		counts[i].slow -= oldest[i].slow
	}
	return counts
}

// partitions renders who keeps each partition, and how it is doing; nothing if there is none. At most so many rows are
// rendered; 0: all.
func (r *rates) partitions(going dev.Going, observations []dev.Observation, most int, now time.Time) []string {
	v, label := going.View, going.Label
	if len(v.Partitions) == 0 {
		return nil
	}
	sums := make([]updates, len(v.Partitions))
	parts := map[view.MemberID][]*adminv1.Part{}
	for _, o := range observations {
		for i, count := range r.lately(o, now) {
			if i < len(sums) {
				sums[i].fast += count.fast
				sums[i].slow += count.slow
			}
		}
		parts[o.ID] = o.Status.GetPartitions()
	}
	var b bytes.Buffer
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "PARTITION\tSTATE\tMASTER\tBACKUPS\tWITNESSES\tTERM\tUNSYNCED\tFAST PATH")
	var reasons []string
	list := func(ids []view.MemberID) string { // a witness by its site, or its member
		var names []string
		for _, id := range ids {
			names = append(names, strings.TrimSuffix(label(id), record.WitnessSuffix))
		}
		return cmp.Or(strings.Join(names, ","), "-")
	}
	for i, p := range v.Partitions {
		if most > 0 && i == most {
			reasons = append(reasons, fmt.Sprintf("%d more partitions; `status` shows them", len(v.Partitions)-most))
			break
		}
		state, unsynced, waits := doing(p, i, parts[p.Master])
		if waits != "" {
			reasons = append(reasons, fmt.Sprintf("partition %d: %s: %s", i, label(p.Master), waits))
		}
		fmt.Fprintf(t, "%d\t%s\t%s\t%s\t%s\t%d\t%s\t%s\n", i, state, label(p.Master), list(p.Backups),
			list(p.Witnesses),
			p.Term, unsynced, percent(sums[i].fast, sums[i].fast+sums[i].slow))
	}
	return append(written(t, &b), reasons...)
}

// doing is how a partition is, as its master says, if it does.
func doing(p view.Partition, i int, said []*adminv1.Part) (state, unsynced, waits string) {
	if i >= len(said) || said[i].Term != p.Term || said[i].Role != adminv1.PartRole_MASTER {
		return "unknown", "-", ""
	}
	part := said[i]
	unsynced = fmt.Sprint(part.Unsynced)
	switch {
	case part.Lost:
		return "lost", unsynced, part.Waits
	case part.Serving:
		return "serving", unsynced, ""
	case part.Restarted || len(p.Formers) > 0:
		return "recovers", unsynced, part.Waits
	}
	return "starts", unsynced, part.Waits
}
