package check

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"

	"github.com/georegister/georegister/replica/membership"
	"github.com/georegister/georegister/replica/view"
)

// Succession holds a view against the one that it follows in the record: what it may change, and what must stay.
// After a lost quorum (rescue) it has those that are left.
func Succession(before, next view.View, rescue bool) error {
	fail := func(format string, args ...any) error {
		return fmt.Errorf("the view of epoch %d follows that of epoch %d: %w", next.Epoch, before.Epoch,
			fmt.Errorf(format, args...))
	}
	finished := before.Joint() && !next.Joint() && slices.Equal(next.IDs(), before.After().IDs())
	switch {
	case next.Epoch != before.Epoch+1:
		return fail("epochs count one by one")
	case next.Cluster != before.Cluster || next.Level != before.Level:
		return fail("it is of cluster %q at level %d, not of %q at %d", next.Cluster, next.Level, before.Cluster,
			before.Level)
	case next.LastIssued() < before.LastIssued():
		return fail("the highest id that was ever given falls from %d to %d", before.LastIssued(), next.LastIssued())
	case (finished || rescue) != (next.Since == next.Epoch) || !(finished || rescue) && next.Since != before.Since:
		return fail("it has its members since epoch %d, and they were others since %d", next.Since, before.Since)
	case !membersFollow(before, next, rescue):
		return fail("its members are %v of which some join or leave (%v), and were %v (%v)", next.IDs(),
			next.Joint(), before.IDs(), before.Joint())
	}
	for _, m := range next.Members {
		if i := before.Index(m.ID); i < 0 && (rescue || m.ID <= before.LastIssued() || !m.Joining || m.Disk == "") {
			return fail("member %d comes, and ids up to %d were given", m.ID, before.LastIssued())
		} else if i >= 0 && (m.Disk != before.Members[i].Disk || m.Site != before.Members[i].Site ||
			m.Address != before.Members[i].Address) {
			return fail("member %d is another one", m.ID)
		}
	}
	for _, x := range next.Witnesses {
		if old, known := before.Witness(x.ID); known && x != old {
			return fail("witness %d is another one", x.ID)
		} else if !known && x.ID <= before.LastIssued() && (x.Beside == 0 || x.ID != membership.WitnessOf(x.Beside)) {
			return fail("witness %d comes, and ids up to %d were given", x.ID, before.LastIssued())
		}
	}
	if len(next.Partitions) < len(before.Partitions) || len(before.Partitions) > 0 &&
		next.FoundedPartitions() != before.FoundedPartitions() {
		return fail("it has %d partitions, %d of them founded, and there were %d, %d founded",
			len(next.Partitions), next.FoundedPartitions(),
			len(before.Partitions), before.FoundedPartitions())
	}
	for i, p := range before.Partitions {
		if err := partitionFollows(p, next.Partitions[i], next.Epoch, rescue); err != nil {
			return fail("partition %d: %w", i, err)
		}
	}
	return nil
}

// membersFollow reports whether members change in one of the ways that there are.
func membersFollow(before, next view.View, rescue bool) bool {
	same := func(a, b []view.Member) bool { return slices.Equal(a, b) }
	switch {
	case rescue:
		return !next.Joint() && !slices.ContainsFunc(next.IDs(),
			func(id view.MemberID) bool { return before.Index(id) < 0 })
	case before.Joint() && next.Joint(), !before.Joint() && !next.Joint():
		return same(before.Members, next.Members)
	case next.Joint():
		return same(before.Members, next.Before().Members)
	}
	return same(next.Members, before.After().Members) || same(next.Members, before.Before().Members)
}

// partitionFollows reports what a partition may not become: each term has its number and its keepers, and the next
// one recovers from it, unless what it had is given up.
func partitionFollows(before, next view.Partition, epoch uint64, rescue bool) error {
	last := before.Former()
	switch {
	case next.Split != before.Split:
		return fmt.Errorf("it was split off in term %d, and now in %d", before.Split, next.Split)
	case next.Term == before.Term:
		kept := next
		kept.Formers = before.Formers
		if !reflect.DeepEqual(kept, before) || len(next.Formers) > 0 && !reflect.DeepEqual(next.Formers,
			before.Formers) {
			return fmt.Errorf("term %d has other keepers, or other terms to recover from: %+v and %+v", next.Term,
				before, next)
		}
		return nil
	case next.Term != epoch:
		return fmt.Errorf("its term is %d after %d", next.Term, before.Term)
	case rescue:
		return nil // what is left to recover from is judged with what is left
	case next.Empty:
		return fmt.Errorf("it begins again empty in term %d", next.Term)
	case len(next.Formers) == 0 || !reflect.DeepEqual(next.Formers[len(next.Formers)-1], last):
		return fmt.Errorf("term %d does not recover from %+v: %+v", next.Term, last, next.Formers)
	}
	for _, f := range next.Formers[:len(next.Formers)-1] {
		if !slices.ContainsFunc(before.Formers, func(o view.Former) bool { return reflect.DeepEqual(o, f) }) {
			return fmt.Errorf("term %d recovers from %+v, which is no former one", next.Term, f)
		}
	}
	return nil
}

// Decision holds what was decided on a change of members without partitions against what members had said: when it
// begins, is finished or abandoned, and whom it waits for.
func Decision(s membership.Snapshot, d membership.Decision) error {
	if d.Err != nil {
		return d.Err
	}
	j := judgement{Snapshot: s, digest: s.View.Digest()}
	held := s.View.Quorum(j.holds)
	if !s.View.Joint() {
		return j.begins(d, held)
	}
	e := electorateOf(shapeOf(s.View))
	var progress progress
	var rest []view.MemberID
	for i, m := range s.View.Members {
		settled, fetched := j.settled(m.ID), j.settled(m.ID) && s.View.Transfers(m.ID) && j.said(m.ID).Fetched
		if settled {
			progress.settled |= 1 << i
		}
		if fetched {
			progress.fetched |= 1 << i
		}
		if e.after.has(i) && (!settled || s.View.Transfers(m.ID) && !fetched) {
			rest = append(rest, m.ID)
		}
	}
	restorable := s.Fragments.Data == 0 || e.restorable(holdersOf(s.Fragments, e.before), holdersOf(s.Fragments,
		e.after), progress.fetched)
	safe := held && restorable && e.covered(progress.fetched, progress.settled)
	busy := slices.DeleteFunc(slices.Clone(rest), func(id view.MemberID) bool {
		return slices.Contains(s.Hopeless, id) || safe && slices.Contains(s.Absent, id)
	})
	fail := func(what string) error {
		return fmt.Errorf("the change of epoch %d %s: a quorum holds it: %v; fetched have %b of its "+
			"members %v, and settled %b; busy are %v",
			s.View.Epoch, what, held, progress.fetched, s.View.IDs(), progress.settled, busy)
	}
	vain := j.vain(safe, held, len(busy))
	switch over := safe && len(busy) == 0; {
	case d.Kind == membership.Finished && (!over || s.Abandon):
		return fail("is finished too early")
	case d.Changed() && !s.Abandon && !d.Next.Quorum(j.answers):
		return fail("ends in a view of which too few were heard")
	case d.Kind == membership.Abandoned && !s.Abandon && (over || !vain):
		return fail("is abandoned for nothing")
	case !d.Changed() && (over || s.Abandon):
		return fail("is not ended")
	case !d.Changed() && vain && s.View.Before().Quorum(j.answers):
		return fail("goes on for nothing")
	case !d.Changed() && d.Wait != waits(vain, held):
		return fail(fmt.Sprintf("is said to wait for %d", d.Wait))
	case !slices.Equal(d.Rest, rest) || !slices.Equal(d.For, busy):
		return fail(fmt.Sprintf("is said to wait for %v, and %v not to be done", d.For, d.Rest))
	case !j.caused(d.Cause, safe, held && !safe && len(busy) == 0):
		return fail(fmt.Sprintf("has %d as its cause to be abandoned", d.Cause))
	}
	return nil
}

// begins judges when a change begins, and what it waits for until then.
func (j *judgement) begins(d membership.Decision, held bool) error {
	var diskless []view.MemberID
	for _, newcomer := range j.Join {
		if newcomer.Disk == "" {
			diskless = append(diskless, newcomer.ID)
		}
	}
	wait := membership.NoWait
	switch {
	case !held:
		wait, diskless = membership.ForView, nil
	case len(diskless) > 0:
		wait = membership.ForNewcomers
	}
	wanted := len(j.Join)+len(j.Leave) > 0
	if begins := wanted && wait == membership.NoWait; begins != d.Changed() || begins && d.Kind != membership.Begun ||
		d.Wait != wait || !slices.Equal(d.For, diskless) {
		return fmt.Errorf("a change in epoch %d (wanted: %v, a quorum holds the view: %v) waits for %d of %v, and it is "+
			"decided that it begins: %v, and that it waits for %d of %v", j.View.Epoch, wanted, held, wait, diskless,
			d.Changed(), d.Wait, d.For)
	}
	return nil
}

// waits is what a change waits for that is not ended, by whether it is in vain and a quorum holds the view.
func waits(vain, held bool) membership.Wait {
	switch {
	case vain:
		return membership.ForAnswers
	case !held:
		return membership.ForView
	}
	return membership.ForParts
}

// Supposed judges what would be decided if nobody wanted the change any more, or somebody asked for its end, or all
// members had lost their disks.
func Supposed(s membership.Snapshot) error {
	unwanted, abandoned, lost := s, s, s
	unwanted.Unwanted, abandoned.Abandon, lost.Lost = true, true, s.View.IDs()
	for _, other := range []membership.Snapshot{unwanted, abandoned, lost} {
		if err := Decision(other, membership.Decide(other)); err != nil {
			return fmt.Errorf("if the change is unwanted: %v, or is to be abandoned: %v, and %v have lost their "+
				"disks: %w", other.Unwanted, other.Abandon, other.Lost, err)
		}
	}
	return nil
}

// Wanted holds a decision while members change against the one that it would be if somebody wanted another change
// by then: that comes when this one is over.
func Wanted(s membership.Snapshot, d membership.Decision) error {
	if !s.View.Joint() {
		return nil
	}
	s.Join = []membership.Founder{{ID: s.View.LastIssued() + 2, Site: "another", Address: "another", Disk: "another"}}
	s.Leave = s.View.IDs()[:1]
	if other := membership.Decide(s); !reflect.DeepEqual(other, d) {
		return fmt.Errorf("the change of epoch %d is decided on in another way when another change "+
			"is wanted: %+v, not %+v", s.View.Epoch, other, d)
	}
	return nil
}

// Namesakes are the witnesses that an administrator may name, too, who have come already, or have gone.
func Namesakes(v view.View) []view.Witness {
	names, last := slices.Clone(v.Witnesses), v.LastIssued()
	if _, known := v.Witness(last); !known && v.Index(last) < 0 {
		names = append(names, view.Witness{ID: last, Site: "gone", Disk: "gone"})
	}
	return names
}

// Named holds it that no witness comes under an ID that was given before: Namesakes are named.
func Named(v view.View, d membership.Decision) error {
	for _, w := range d.Next.Witnesses {
		if _, known := v.Witness(w.ID); !known && w.ID <= v.LastIssued() && w.ID != membership.WitnessOf(w.Beside) {
			return fmt.Errorf("the view of epoch %d takes on witness %d, and the last ID that was given to anybody is %d",
				d.Next.Epoch, w.ID, v.LastIssued())
		}
	}
	return nil
}

// Taken holds it that a view takes on no witness whom the end of its change takes away, also if somebody asked now for
// the members before it again.
func Taken(s membership.Snapshot, d membership.Decision) error {
	err := taken(s, d)
	if err == nil && s.View.Joint() && !s.Abandon {
		s.Abandon = true
		err = taken(s, membership.Decide(s))
	}
	return err
}

func taken(s membership.Snapshot, d membership.Decision) error {
	side := d.Next.After()
	if s.Abandon {
		side = d.Next.Before()
	}
	for _, w := range d.Next.Witnesses {
		if _, known := s.View.Witness(w.ID); !known && w.Beside != 0 && side.Index(w.Beside) < 0 {
			return fmt.Errorf("the view of epoch %d takes on witness %d, beside member %d, which leaves", d.Next.Epoch,
				w.ID, w.Beside)
		}
	}
	return nil
}

// judgement is a snapshot that a decision is held against.
type judgement struct {
	membership.Snapshot
	digest string
}

// said is what a member said; nothing if it did not.
func (j *judgement) said(id view.MemberID) (r membership.MemberReport) {
	for _, o := range j.Members {
		if o.Member == id {
			return o
		}
	}
	return r
}

func (j *judgement) holds(id view.MemberID) bool {
	return j.answers(id) && j.said(id).Digest == j.digest
}
func (j *judgement) answers(id view.MemberID) bool { return j.said(id).Member != 0 }
func (j *judgement) settled(id view.MemberID) bool { return j.holds(id) && j.said(id).Settled }

// vain reports whether a change may be abandoned that nobody asks to be: it is not wanted any more, or can't be
// finished.
func (j *judgement) vain(safe, held bool, busy int) bool {
	return j.Unwanted || j.newcomerLost() && !safe || j.tooFewLeft() || held && !safe && busy == 0
}

// caused reports whether what is said to be the cause is so: people are told of it.
func (j *judgement) caused(cause membership.Cause, safe, idle bool) bool {
	switch cause {
	case membership.Asked:
		return j.Abandon
	case membership.NotWanted:
		return j.Unwanted
	case membership.NewcomerLost:
		return j.newcomerLost() && !safe
	case membership.TooFewLeft:
		return j.tooFewLeft()
	case membership.NobodyWorks:
		return idle
	}
	return true
}

// newcomerLost reports whether a newcomer will not do its part.
func (j *judgement) newcomerLost() bool {
	return slices.ContainsFunc(j.View.Members, func(m view.Member) bool {
		return m.Joining && slices.Contains(j.Hopeless, m.ID)
	})
}

// tooFewLeft reports whether no majority of the members after a change is left.
func (j *judgement) tooFewLeft() bool {
	left := 0
	for _, m := range j.View.Members {
		if !m.Leaving && !slices.Contains(j.Hopeless, m.ID) && !slices.Contains(j.Lost, m.ID) {
			left++
		}
	}
	return 2*left <= j.View.After().Size()
}

// awayFromHome reports whether a partition's master is at another site than its home, though a member is there. Homes
// that are not given are where distances say, or else go round the sites of those that stay.
func awayFromHome(p *membership.Placement, v view.View, partition int) bool {
	sites := v.After().Sites()
	home := sites[partition%len(sites)]
	if partition < len(p.Homes) && p.Homes[partition] != "" || len(p.Distances) > 0 {
		home = p.Home(&v, partition)
	}
	return slices.Contains(v.Sites(), home) && v.Members[v.Index(v.Partitions[partition].Master)].Site != home
}

// Lives holds it that who is told to begin a life, or to end one, is a witness that the view has, on the disk that the
// view names: another one refuses it.
func Lives(s membership.Snapshot, start, end []membership.Life) error {
	for _, life := range slices.Concat(start, end) {
		at := slices.IndexFunc(s.Witnesses, func(r membership.WitnessReport) bool { return r.Witness == life.Witness })
		if w, known := s.View.Witness(life.Witness); at < 0 || !known || s.Witnesses[at].Disk != w.Disk {
			return fmt.Errorf("epoch %d: witness %d is told of its life in term %d of partition %d, and is not one of "+
				"the view, or is on another disk", s.View.Epoch, life.Witness, life.Term, life.Partition)
		}
	}
	return nil
}

// Rescue holds what becomes of partitions after a lost quorum against what those that are left had said: each goes
// on from its master, or else from the member that has all that was synced, with the longest log, or else from the
// one that has followed furthest; and what is said to be lost is.
func Rescue(s membership.Snapshot, d membership.Rescue) error {
	if err := Succession(s.View, d.View, true); err != nil {
		return err
	}
	for i, p := range s.View.Partitions {
		r := rescued{judgement: judgement{Snapshot: s}, i: i, p: p}
		next := d.View.Partitions[i]
		able, whole := r.most(r.able, func(membership.Part) uint64 { return 0 })
		behind, _ := r.most(r.copied, func(p membership.Part) uint64 { return p.WholeTerm })
		var from []view.MemberID
		switch {
		case r.able(p.Master):
			from = []view.MemberID{p.Master}
		case len(able) > 0:
			from = able
		default:
			from, whole = behind, false
		}
		shortened := whole && r.shortened(next.Master, d.View)
		fail := func(what string) error {
			return fmt.Errorf("a quorum is lost in epoch %d: partition %d %s: it goes on from %d "+
				"with the backups %v; behind: %v, empty: %v, shortened: %v; able are %v",
				s.View.Epoch, i, what, next.Master, next.Backups, d.Behind, d.Emptied, d.Shortened, from)
		}
		switch {
		case (len(from) == 0) != slices.Contains(d.Emptied, i) || (len(from) == 0) != next.Empty:
			return fail("begins again empty, or does not")
		case (len(from) > 0 && !whole) != slices.Contains(d.Behind, i):
			return fail("goes on from less than all, or does not")
		case len(from) > 0 && !slices.Contains(from, next.Master):
			return fail("has another master than it must")
		case next.Empty && awayFromHome(&s.Placement, d.View, i):
			return fail("begins again away from its home, where members are")
		case shortened != slices.Contains(d.Shortened, i):
			return fail("loses what witnesses had, or does not")
		case next.Term != d.View.Epoch || len(next.Backups) > min(s.Placement.Faults, d.View.Faults()) ||
			slices.Contains(next.Backups, next.Master):
			return fail("has other backups than it must")
		}
	}
	return nil
}

// rescued is a partition of a view whose quorum is lost.
type rescued struct {
	judgement
	i int
	p view.Partition
}

// formers are the terms that the next one recovers from: those that the present one is to recover from, and that one.
func (r *rescued) formers() []view.Former { return append(slices.Clone(r.p.Formers), r.p.Former()) }

// part is what a member says of its part on the disk that the view names, and whether it says so.
func (r *rescued) part(id view.MemberID) (membership.Part, bool) {
	m, at := r.said(id), r.View.Index(id)
	if at < 0 || m.Member == 0 || m.Disk != r.View.Members[at].Disk || r.i >= len(m.Partitions) ||
		m.Partitions[r.i].Term != r.p.Term {
		return membership.Part{}, false
	}
	return m.Partitions[r.i], true
}

// served reports whether a term may have served: nobody who had a part in it says that it never had what that was
// to recover.
func (r *rescued) served(f view.Former) bool {
	return !slices.ContainsFunc(append([]view.MemberID{f.Master}, f.Backups...), func(id view.MemberID) bool {
		p, told := r.part(id)
		return told && p.NotedTerm < f.Term
	})
}

// able reports whether a member has all that was synced.
func (r *rescued) able(id view.MemberID) bool {
	p, told := r.part(id)
	if !told || p.Lost || p.Copying {
		return false
	}
	for _, f := range r.formers() {
		if f.Master != id && !slices.Contains(f.Backups, id) && f.Term >= p.WholeTerm && r.served(f) {
			return false
		}
	}
	return true
}

// copied reports whether a member has all as it was at some moment, and not before there was anything.
func (r *rescued) copied(id view.MemberID) bool {
	p, told := r.part(id)
	return told && !p.Lost && !p.Copying && p.Length+p.WholeTerm > 0
}

// most are those with the highest number, and of these the longest log, and whether there are any.
func (r *rescued) most(of func(view.MemberID) bool, number func(membership.Part) uint64) (best []view.MemberID,
	some bool) {
	for _, m := range r.View.Members {
		if !of(m.ID) {
			continue
		}
		p, _ := r.part(m.ID)
		if some {
			b, _ := r.part(best[0])
			switch c := cmp.Or(cmp.Compare(number(p), number(b)), cmp.Compare(p.Length, b.Length)); {
			case c < 0:
				continue
			case c > 0:
				best = nil
			}
		}
		best, some = append(best, m.ID), true
	}
	return best, some
}

// shortened reports whether nobody is left who tells a master what was answered in a term, and it does not know it.
func (r *rescued) shortened(master view.MemberID, next view.View) bool {
	own, _ := r.part(master)
	formers := r.formers()
	if own.Recovered {
		formers = formers[len(formers)-1:]
	}
	return slices.ContainsFunc(formers, func(f view.Former) bool {
		gone := !slices.ContainsFunc(f.Witnesses, func(id view.MemberID) bool {
			_, left := next.Witness(id)
			return left
		})
		return len(f.Witnesses) > 0 && gone && (f.Master != master || len(f.Backups) == 0) &&
			f.Term >= own.WholeTerm && r.served(f)
	})
}
