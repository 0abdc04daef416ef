package dev

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	adminv1 "github.com/georegister/georegister/api/admin/v1"
	"github.com/georegister/georegister/replica/view"
)

// updates counts those of one partition that clients submitted: by the round trips that they took.
type updates struct{ fast, slow uint64 }

// updatesAt is what a member had counted at a moment, by partition.
type updatesAt struct {
	at     time.Time
	pid    int
	counts []updates
}

// lately adds what a member counted, and returns what it counted since the oldest reading that matters.
func (r *Rates) lately(o Observation, now time.Time) []updates {
	latest := updatesAt{at: now, pid: o.PID}
	for _, p := range o.Status.GetPartitions() {
		latest.counts = append(latest.counts, updates{p.Fast, p.Slow})
	}
	kept := r.updates[o.Label]
	if len(kept) > 0 && (kept[0].pid != o.PID || len(kept[0].counts) != len(latest.counts)) {
		kept = nil // counts began again with the process
	}
	for len(kept) > 1 && now.Sub(kept[0].at) > ratesOver {
		kept = kept[1:]
	}
	r.updates[o.Label] = append(kept, latest)
	oldest := r.updates[o.Label][0].counts
	counts := slices.Clone(latest.counts)
	for i := range counts {
		if counts[i].fast < oldest[i].fast || counts[i].slow < oldest[i].slow {
			continue // counted anew in a later view
		}
		counts[i].fast -= oldest[i].fast
		counts[i].slow -= oldest[i].slow
	}
	return counts
}

// Partitions renders who keeps each partition of a view, and how it is doing; nothing if it has none. Label names
// members and witnesses to people. At most so many rows are rendered; 0: all.
func (r *Rates) Partitions(v view.View, label func(view.MemberID) string, observations []Observation, most int, now time.Time) []string {
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
	for i, p := range v.Partitions {
		if most > 0 && i == most {
			reasons = append(reasons, fmt.Sprintf("%d more partitions; `status` shows them", len(v.Partitions)-most))
			break
		}
		state, unsynced, waits := doing(p, i, parts[p.Master])
		if waits != "" {
			reasons = append(reasons, fmt.Sprintf("partition %d: %s: %s", i, label(p.Master), waits))
		}
		fast := "-"
		if n := sums[i].fast + sums[i].slow; n > 0 {
			fast = fmt.Sprintf("%.0f%%", 100*float64(sums[i].fast)/float64(n))
		}
		var backups []string
		for _, id := range p.Backups {
			backups = append(backups, label(id))
		}
		var witnesses []string
		for _, id := range p.Witnesses {
			witnesses = append(witnesses, strings.TrimSuffix(label(id), witnessSuffix))
		}
		fmt.Fprintf(t, "%d\t%s\t%s\t%s\t%s\t%d\t%s\t%s\n", i, state, label(p.Master), list(backups), list(witnesses), p.Term, unsynced, fast)
	}
	_ = t.Flush() // to memory
	return append(strings.Split(strings.TrimRight(b.String(), "\n"), "\n"), reasons...)
}

// serves reports whether the master of a partition says that it serves it.
func serves(p view.Partition, i int, said []*adminv1.Part) bool {
	return i < len(said) && said[i].Term == p.Term && said[i].Serving
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

func list(names []string) string { return cmp.Or(strings.Join(names, ","), "-") }
