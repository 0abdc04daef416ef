package dev

import (
	"cmp"
	"context"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	adminv1 "github.com/georegister/georegister/api/admin/v1"
	"github.com/georegister/georegister/replica/membership"
	"github.com/georegister/georegister/replica/view"
)

// told is what decisions on partitions go by: what the member says of itself, and whom it hears.
func told(id view.MemberID, s *adminv1.StatusResponse) *membership.MemberReport {
	r := &membership.MemberReport{Member: id, Disk: s.Disk, Digest: s.Digest, Epoch: s.GetView().GetEpoch()}
	for _, p := range slices.Concat(s.Peers, s.Witnesses) {
		if p.Reachable {
			r.Hears = append(r.Hears, view.MemberID(p.Member))
		}
	}
	for _, p := range s.Partitions {
		part := membership.Part{Term: p.Term, Lost: p.Lost, Recovered: p.Recovered, Restarted: p.Restarted, Copying: p.Copying,
			WholeTerm: p.WholeTerm, NotedTerm: p.NotedTerm, Length: p.Length}
		for _, learner := range p.CaughtUp {
			part.CaughtUp = append(part.CaughtUp, view.MemberID(learner))
		}
		r.Partitions = append(r.Partitions, part)
	}
	return r
}

// placement is how partitions are to be kept by the members of a plain view: as the manifest wants it, as far as they
// are enough. A site keeps its place in the order of homes when its member is replaced.
func (r *record) placement(v view.View) membership.Placement {
	p := membership.Placement{Partitions: r.Shards, Faults: min(r.Faults, (v.Size()-1)/2), Dedicated: r.Dedicated}
	if len(v.Partitions) > 0 { // else it is to be founded
		p.Partitions = r.wanted()
	}
	there := r.sitesOf(v)
	for i := range p.Partitions {
		p.Homes = append(p.Homes, r.home(i, there))
	}
	return p
}

// addPartitions adds to a snapshot what decisions on partitions are made from. That this process does not hear somebody
// is not in it.
func (r *record) addPartitions(s *membership.Snapshot, reports map[view.MemberID]report) {
	s.Placement = r.placement(r.View.After())
	if s.Abandon {
		s.Placement = r.placement(r.View.Before())
	}
	s.Placement.Faults = min(r.Faults, membership.Faults(r.View, s.Abandon))
	for _, m := range r.Members {
		if said := reports[m.ID].told; said != nil && r.View.Index(m.ID) >= 0 {
			s.Members = append(s.Members, *said)
		}
		if said := reports[m.ID].witness; said != nil {
			s.Witnesses, s.Named = append(s.Witnesses, *said), append(s.Named, m.sidecar(said.Disk))
		}
	}
	said, named := r.named(reports)
	s.Witnesses, s.Named = append(s.Witnesses, said...), append(s.Named, named...)
	s.Retiring = r.retiring()
}

// place gives the first view its partitions, once the witnesses named their disks.
func (r *record) place(v view.View, reports map[view.MemberID]report) (step, error) {
	var witnesses []view.Witness
	var unnamed []string
	for _, w := range r.Witnesses {
		if said := reports[w.ID].witness; said == nil || said.Disk == "" {
			unnamed = append(unnamed, r.label(w.ID))
		} else {
			witnesses = append(witnesses, w.entry(said.Disk))
		}
	}
	for _, m := range r.Members {
		if r.Dedicated {
			break
		}
		said := reports[m.ID].witness
		if said == nil || said.Disk == "" {
			unnamed = append(unnamed, r.label(m.Witness))
			continue
		}
		witnesses = append(witnesses, m.sidecar(said.Disk))
	}
	if len(unnamed) > 0 {
		return step{waits: strings.Join(unnamed, ", ") + " to name its empty disk"}, nil
	}
	v, err := membership.Place(v, witnesses, r.placement(v))
	return step{view: v}, err
}

// sidecar is the witness beside a member, as a view has it.
func (m memberRecord) sidecar(disk string) view.Witness {
	return view.Witness{ID: m.Witness, Site: m.Site, Address: loopback(m.Ports.Witness), Disk: disk, Beside: m.ID}
}

// numbered are the words with which decisions name members and witnesses.
var numbered = regexp.MustCompile(`\b(members?|masters?|backups?|witness(?:es)?|become|hears,) (\d+|\[[\d ]*\])`)

// names has a decision name members and witnesses as people know them.
func (r *record) names(text string) string {
	return numbered.ReplaceAllStringFunc(text, func(match string) string {
		word, ids, _ := strings.Cut(match, " ")
		var labels []string
		for _, id := range strings.Fields(strings.Trim(ids, "[]")) {
			n, _ := strconv.ParseUint(id, 10, 32) // digits
			labels = append(labels, r.label(view.MemberID(n)))
		}
		return word + " " + cmp.Or(strings.Join(labels, ", "), "none")
	})
}

// recoverWithin is what a recovery may take beside connecting, most of it until the leases of the former master have
// ended.
const recoverWithin = 3 * time.Second

// recovering reports whether a partition is being recovered, and not over with it, by a master that answers.
func (r *record) recovering(reports map[view.MemberID]report) bool {
	for i, p := range r.View.Partitions {
		said := reports[p.Master].told
		if len(p.Formers) > 0 && said != nil && (i >= len(said.Partitions) || said.Partitions[i].Term != p.Term || !said.Partitions[i].Recovered) {
			return true
		}
	}
	return false
}

// askWitnesses asks those that run for their lives. There is none of those that don't answer.
func (c *Cluster) askWitnesses(ctx context.Context) map[view.MemberID]*membership.WitnessReport {
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	witnesses := c.sidecars()
	answers := make([]*membership.WitnessReport, len(witnesses))
	var group sync.WaitGroup
	for i, w := range witnesses {
		if !w.current().running() {
			continue
		}
		group.Go(func() {
			if r, err := w.manager.Report(ctx); err == nil {
				answers[i] = &r
			}
		})
	}
	group.Wait()
	reports := map[view.MemberID]*membership.WitnessReport{}
	for i, w := range witnesses {
		reports[w.key()] = answers[i]
	}
	return reports
}

// live has witnesses begin and end the lives that the recorded view wants, and does not wait for them.
func (c *Cluster) live(ctx context.Context, reports map[view.MemberID]report) {
	c.mu.Lock()
	r := &c.directory.record
	if !r.partitioned() || r.View.Epoch == 0 {
		c.mu.Unlock()
		return
	}
	s := r.snapshot(reports)
	c.mu.Unlock()
	start, end := membership.Lives(s)
	for _, w := range c.sidecars() {
		own := func(l membership.Life) bool { return l.Witness == w.id }
		if !slices.ContainsFunc(start, own) && !slices.ContainsFunc(end, own) || !w.busy.CompareAndSwap(false, true) {
			continue
		}
		named, _ := s.View.Witness(w.id)
		c.background.Go(func() {
			defer w.busy.Store(false)
			ctx, cancel := context.WithTimeout(ctx, linkTimeout)
			defer cancel()
			if err := w.manager.Live(ctx, named.Disk, start, end); err != nil && ctx.Err() == nil {
				w.complain(c, err)
				return
			}
			c.wake()
		})
	}
}

// complain says what went wrong with a witness, once.
func (w *sidecar) complain(c *Cluster, err error) {
	text := err.Error()
	if earlier := w.said.Swap(&text); w.current().running() && (earlier == nil || *earlier != text) {
		c.say("%s: %s", w.name(), text)
	}
}

// partitions are the recorded view, how people know those in it, and for what the partitions wait.
func (c *Cluster) partitions() (v view.View, label func(view.MemberID) string, waiting string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.directory.record
	r.Members = slices.Clone(r.Members)
	return r.View, r.label, c.waiting
}
