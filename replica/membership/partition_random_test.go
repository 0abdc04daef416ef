package membership

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/georegister/georegister/replica/view"
)

// walk draws what members and witnesses say, also wrongly, and follows the decisions.
type walk struct {
	t      *testing.T
	random *rand.Rand
	seed   uint64
	v      view.View
	p      Placement
	dead   []view.MemberID
	disks  map[view.MemberID]string // of witnesses, as they have them now; order is irrelevant: looked up only
	counts map[string]int
}

// draw is a snapshot in which those who are alive hear each other most of the time.
func (w *walk) draw() Snapshot {
	full := snapshot(w.v, w.p, w.dead...)
	s := full
	s.Members, s.Witnesses = nil, nil
	for _, r := range full.Members {
		if w.random.IntN(10) == 0 {
			continue
		}
		r.Hears = slices.DeleteFunc(slices.Clone(r.Hears), func(view.MemberID) bool { return w.random.IntN(12) == 0 })
		for i, p := range w.v.Partitions {
			part := &r.Partitions[i]
			part.Term, part.Length = p.Term-uint64(w.random.IntN(8)/7), uint64(w.random.IntN(9))
			part.Lost, part.Copying = w.random.IntN(40) == 0, w.random.IntN(12) == 0
			if w.random.IntN(4) == 0 {
				part.WholeTerm = uint64(w.random.IntN(int(p.Term) + 1))
				part.NotedTerm = part.WholeTerm
			}
			if p.Master == r.Member {
				part.Recovered = w.random.IntN(2) == 0
				part.CaughtUp = slices.DeleteFunc(part.CaughtUp, func(view.MemberID) bool {
					return w.random.IntN(2) == 0
				})
			}
		}
		s.Members = append(s.Members, r)
	}
	for _, r := range full.Witnesses {
		r.Disk = w.disks[r.Witness]
		for i, p := range w.v.Partitions {
			for _, f := range append(slices.Clone(p.Formers), view.Former{Term: p.Term},
				view.Former{Term: uint64(1 + w.random.IntN(int(p.Term)))}) {
				if w.random.IntN(2) == 0 {
					r.Lives = append(r.Lives, Life{r.Witness, i, f.Term})
				}
			}
		}
		s.Witnesses = append(s.Witnesses, r)
	}
	if w.random.IntN(5) == 0 {
		s.Drained = []view.MemberID{w.v.Members[w.random.IntN(w.v.Size())].ID}
	}
	return s
}

func (w *walk) step() {
	for i, m := range w.v.Members {
		if w.random.IntN(20) == 0 {
			if at := slices.Index(w.dead, m.ID); at >= 0 {
				w.dead = slices.Delete(w.dead, at, at+1)
			} else if len(w.dead) <= w.v.Faults() {
				w.dead = append(w.dead, w.v.Members[i].ID)
			}
		}
	}
	if w.random.IntN(12) == 0 && w.p.Partitions < 8 {
		w.p.Partitions++
	}
	s := w.draw()
	if w.random.IntN(10) == 0 {
		w.replaceWitness()
		return
	}
	w.checkLives(s)
	d := Decide(s)
	if !d.Changed() {
		w.counts["nothing"]++
		return
	}
	if err := d.Next.Validate(); err != nil || d.Next.Epoch != w.v.Epoch+1 || len(d.Changes) == 0 {
		w.t.Fatalf("seed %d: epoch %d after %d, %v: %v", w.seed, d.Next.Epoch, w.v.Epoch, d.Changes, err)
	}
	for i := range w.v.Partitions {
		if why := w.wrong(s, i, w.v.Partitions[i], d.Next.Partitions[i], d.Next.Epoch); why != "" {
			w.t.Fatalf("seed %d: partition %d from %s to %s: %s", w.seed, i, text(w.v.Partitions[i]),
				text(d.Next.Partitions[i]), why)
		}
	}
	if why := w.wrongSplit(d.Next); why != "" {
		w.t.Fatalf("seed %d: partition %d: %s", w.seed, len(w.v.Partitions), why)
	}
	w.v = d.Next
}

// wrongSplit says what must not happen in a split.
func (w *walk) wrongSplit(next view.View) string {
	count := len(w.v.Partitions)
	if len(next.Partitions) == count {
		return ""
	}
	w.counts["split"]++
	parent := view.Parent(w.v.FoundedPartitions(), count)
	before, after, child := w.v.Partitions[parent], next.Partitions[parent], next.Partitions[count]
	switch {
	case len(next.Partitions) != count+1 || len(next.Partitions) > w.p.Partitions ||
		next.FoundedPartitions() != w.v.FoundedPartitions():
		return "there are too many"
	case len(before.Formers) > 0 || len(before.Witnesses) > 0:
		return "it is split off what witnesses may have more of: " + text(before)
	case child.Split != next.Epoch || text(child) != text(after) || after.Master != before.Master ||
		!slices.Equal(after.Backups, before.Backups):
		return fmt.Sprintf("it is split off %s as %s, which goes on as %s", text(before), text(child), text(after))
	}
	return ""
}

// wrong says what must not happen to a partition.
func (w *walk) wrong(s Snapshot, i int, p, next view.Partition, epoch uint64) string {
	if text(p) == text(next) {
		return ""
	}
	// It had a part in each term that may have served, or in a later one.
	knew := func(id view.MemberID, all []view.Former) bool {
		own, _ := s.said(id, i)
		return !slices.ContainsFunc(all, func(f view.Former) bool {
			served := !slices.ContainsFunc(append([]view.MemberID{f.Master}, f.Backups...),
				func(id view.MemberID) bool {
					said, told := s.said(id, i)
					return told && said.NotedTerm < f.Term
				})
			return !f.Has(id) && served && own.WholeTerm <= f.Term
		})
	}
	if next.Term == p.Term {
		w.counts["recovered"]++
		next.Formers = p.Formers
		if text(p) != text(next) || !s.part(p.Master, i).Recovered {
			return "its term stayed, and more than the end of its recovery changed"
		}
		return ""
	}
	formers := slices.DeleteFunc(append(slices.Clone(p.Formers), p.Former()), func(f view.Former) bool {
		return f.Term < p.Term && s.neverServed(i, f) &&
			!slices.ContainsFunc(next.Formers, func(o view.Former) bool { return o.Term == f.Term })
	})
	if next.Term != epoch || fmt.Sprint(next.Formers) != fmt.Sprint(formers) {
		return fmt.Sprintf("it recovers from %v, want %v", next.Formers, formers)
	}
	if next.Master != p.Master && !knew(next.Master, formers) {
		return "its master could miss what was synced"
	}
	if len(next.Backups) < min(len(p.Backups), w.p.Faults) {
		return "it goes on with fewer backups"
	}
	if next.Master != p.Master {
		w.counts["another master"]++
		target := s.drained(p.Master) || w.v.Members[w.v.Index(next.Master)].Site == w.p.Home(&w.v, i)
		linked := func(id view.MemberID) bool { // to a master that says so, or to one who does
			there, told := s.hears(p.Master, id)
			back, also := s.hears(id, p.Master)
			return !s.Suspected(id) && !s.part(id, i).Lost && (there || back || !told || !also)
		}
		others := 0
		for _, member := range w.v.Members {
			others += index(member.ID != p.Master && linked(member.ID) && s.Alive(member.ID))
		}
		if !s.Suspected(p.Master) && !s.part(p.Master, i).Lost && !target && len(p.Formers) == 0 &&
			others >= min(len(p.Backups), w.p.Faults) {
			return "its master was neither lost nor cut off nor to go"
		}
		if !s.Alive(next.Master) {
			return "its master is not alive"
		}
	}
	if len(p.Formers) > 0 {
		w.counts["again"]++
	}
	for _, id := range next.Backups {
		caughtUp := len(p.Formers) == 0 && slices.Contains(s.part(p.Master, i).CaughtUp, id)
		served := len(p.Formers) == 0 && next.Master == p.Master // and would have to wait
		if !slices.Contains(p.Backups, id) && !caughtUp && served {
			return fmt.Sprintf("member %d is its backup and does not have its state", id)
		}
		if caughtUp {
			w.counts["promoted"]++
		}
	}
	if len(next.Backups) > w.p.Faults+1 || len(next.Witnesses) > w.p.Faults {
		return "it has too many"
	}
	return ""
}

func (w *walk) checkLives(s Snapshot) {
	_, end := Lives(s)
	for _, life := range end {
		w.counts["ended"]++
		p := w.v.Partitions[life.Partition]
		if life.Term == p.Term ||
			slices.ContainsFunc(p.Formers, func(f view.Former) bool { return f.Term == life.Term }) {
			w.t.Fatalf("seed %d: the life of term %d is ended, and partition %d is %s", w.seed, life.Term,
				life.Partition, text(p))
		}
	}
}

// replaceWitness has a witness lose its disk, a new one come in its place, and those go that nobody needs.
func (w *walk) replaceWitness() {
	lost := w.v.Witnesses[w.random.IntN(len(w.v.Witnesses))]
	w.disks[lost.ID] = "empty"
	id := w.v.LastIssued() + 1
	come := view.Witness{ID: id, Site: lost.Site, Beside: lost.Beside, Disk: fmt.Sprint("disk-", id)}
	gone := slices.DeleteFunc(Idle(w.v), func(id view.MemberID) bool { return w.disks[id] != "empty" })
	next, err := ChangeWitnesses(w.v, []view.Witness{come}, gone)
	if err != nil {
		w.t.Fatalf("seed %d: %v", w.seed, err)
	}
	w.disks[id] = come.Disk
	w.v = next
	w.counts["witness"]++
}

func TestPartitionsAreNeverSpoilt(t *testing.T) {
	counts := map[string]int{}
	for seed := range uint64(150) {
		w := &walk{
			t: t, random: rand.New(rand.NewPCG(2, seed)), seed: seed, disks: map[view.MemberID]string{}, counts: counts,
		}
		n := 3 + 2*w.random.IntN(2)
		w.v, w.p = placed(t, n, 1+w.random.IntN((n-1)/2), w.random.IntN(2) == 0)
		for _, witness := range w.v.Witnesses {
			w.disks[witness.ID] = witness.Disk
		}
		for range 60 {
			w.step()
		}
	}
	for _, what := range []string{
		"nothing", "recovered", "another master", "again", "promoted", "ended", "witness", "split",
	} {
		if counts[what] < 50 {
			t.Errorf("%q came %d times only", what, counts[what])
		}
	}
	t.Log(counts)
}
