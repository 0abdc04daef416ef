package membership

import (
	"fmt"
	"slices"

	"github.com/georegister/georegister/replica/view"
)

// Faults is how many losses the partitions of a view can be made to survive with its members. In a joint view that is
// as many as before the change or after it, whichever are more, unless the change is abandoned; but no more than those
// that stay can hold, since those who leave are to be rid of their parts.
func Faults(v view.View, abandoned bool) int {
	if abandoned {
		return v.Before().Faults()
	}
	after := v.After()
	return min(max(v.Before().Faults(), after.Faults()), after.Size()-1)
}

// Placement says how partitions are to be kept.
type Placement struct {
	Partitions int // how many: one for each shard
	// Faults is how many losses a partition survives, f of the paper: it has as many backups and as many witnesses.
	// Where too few members are heard it waits for them, and never goes on with fewer backups than it has.
	Faults int
	// Alone is how many witnesses a partition has if Faults is 0: they save what its master has not on disk yet
	// (section 5.4).
	Alone int
	// Homes are the sites of the masters, by partition. Those that are missing, or empty, are chosen by Distances, and
	// without these go round the sites in the members' order.
	Homes []string
	// Distances are those between all sites, or none.
	Distances Distances
	// Dedicated witnesses have pods of their own and are kept away from backups. Others run beside members and serve
	// the partitions whose backup that member is: reads there need nobody else (appendix A.1).
	Dedicated bool
	// Domains are what is lost as one, such as zones, by member and witness. Who has none is lost with its site, and
	// a witness beside a member with that member.
	Domains map[view.MemberID]string
}

// MemberReport is what a member said of itself a short while ago. Of one that said nothing there is none.
type MemberReport struct {
	Member view.MemberID
	Disk   string // as it names it; empty: not told
	Digest string // of the view that it holds
	Epoch  uint64 // of that view; 0: not told
	// In a joint view without partitions: whether it has settled what it voted on before, and fetched the state that it
	// has to (view.View.Transfers).
	Settled, Fetched bool
	// Hears are the members and witnesses that it had something from a short while ago. It hears itself.
	Hears []view.MemberID
	// Partitions are its parts, by partition; fewer if it is not that far.
	Partitions []Part
}

// Part is what a member says of its part in a partition.
type Part struct {
	Term      uint64 // of which the rest speaks
	Lost      bool   // a master or backup: its disk does not have what the part needs
	Recovered bool   // a master: it has all that it was to recover, so have its backups, and it serves
	// Restarted is a master without backups whose disk lacks what its witnesses have: it needs a term in which it
	// recovers.
	Restarted bool
	CaughtUp  []view.MemberID // a master: the learners that have what its backups have
	Copying   bool            // it is fetching a copy of the state: until then it can't be of use
	WholeTerm uint64          // it has all that was to be recovered from the terms before this one
	NotedTerm uint64          // the highest term of which it ever had
	Length    uint64          // of the log, in entries
}

// WitnessReport is what a witness said of itself a short while ago.
type WitnessReport struct {
	Witness view.MemberID
	Disk    string
	Lives   []Life // that it keeps
}

// Life is the time of a witness in one term of a partition.
type Life struct {
	Witness   view.MemberID
	Partition int
	Term      uint64
}

// Snapshot is all that decisions are made from: the recorded view, what its members and witnesses said, the change of
// members that is wanted, and the policy of whoever decides, as far as policies differ.
type Snapshot struct {
	View view.View
	// Join and Leave are the change that is to begin when the view is plain. A newcomer that has not named its disk yet
	// has none here.
	Join  []Founder
	Leave []view.MemberID
	// Abandon asks for the members before the change of a joint view again, though it could be finished. Where there
	// are partitions, newcomers are drained then, and those who leave are not.
	Abandon bool
	Members []MemberReport

	// Of views without partitions.
	Fragments view.Fragments // how large values are stored
	// Unwanted says that nobody asks for the members after the change any more: it is abandoned, unless it can be
	// finished at once.
	Unwanted bool
	// Absent are members that a change that can be finished does not wait for. Hopeless are those that will not do
	// their part at all: nobody waits for them, and a change that needs them is abandoned. Lost are those that won't
	// vote again.
	Absent, Hopeless, Lost []view.MemberID

	// Of views with partitions.
	Placement Placement
	Witnesses []WitnessReport
	// Drained are members that are about to be stopped: what they are master of is handed over, and they get nothing
	// new. Members that leave a joint view are drained, without being named here.
	Drained []view.MemberID
	// Retiring are witnesses with pods of their own that are to leave: others take their places, and they go once no
	// partition needs them.
	Retiring []view.MemberID
	// Named are witnesses that wait on empty disks, beside members that the view has or that join, as they would be
	// entered: with ID, site, address, disk and the member. Those that the view has already count for nothing.
	Named []view.Witness

	known string // the digest of View
}

// report finds what a member said.
func (s *Snapshot) report(id view.MemberID) *MemberReport {
	i := slices.IndexFunc(s.Members, func(r MemberReport) bool { return r.Member == id })
	if i < 0 {
		return nil
	}
	return &s.Members[i]
}

// hears reports whether a member said that it hears another one, and whether it said anything.
func (s *Snapshot) hears(member, other view.MemberID) (hears, told bool) {
	r := s.report(member)
	if r == nil {
		return false, false
	}
	return member == other || slices.Contains(r.Hears, other), true
}

// Suspected reports whether a quorum of members say that they don't hear a member or a witness. That the manager does
// not hear it counts for nothing: it may be the manager that is cut off.
func (s *Snapshot) Suspected(id view.MemberID) bool {
	return s.View.Quorum(func(m view.MemberID) bool {
		hears, told := s.hears(m, id)
		return told && !hears
	})
}

// Alive reports whether a quorum of members, itself among them, say that they hear a member or a witness.
func (s *Snapshot) Alive(id view.MemberID) bool {
	return !s.lost(id) && s.View.Quorum(func(m view.MemberID) bool {
		hears, _ := s.hears(m, id)
		return hears
	})
}

// lost reports whether a member or a witness says that it is on another disk than the view names: what it had is gone.
func (s *Snapshot) lost(id view.MemberID) bool {
	if i := s.View.Index(id); i >= 0 {
		r := s.report(id)
		return r != nil && r.Disk != "" && r.Disk != s.View.Members[i].Disk
	}
	w, known := s.View.Witness(id)
	return !known || slices.ContainsFunc(s.Witnesses, func(r WitnessReport) bool {
		return r.Witness == id && r.Disk != "" && r.Disk != w.Disk
	})
}

// drained reports whether a member is to have nothing new; nor is a witness beside one that leaves.
func (s *Snapshot) drained(id view.MemberID) bool {
	i := s.View.Index(id)
	if w, known := s.View.Witness(id); known {
		i = s.View.Index(w.Beside)
	}
	return slices.Contains(s.Drained, id) || slices.Contains(s.Retiring, id) || i >= 0 && s.departs(s.View.Members[i])
}

// departs reports whether a member of a joint view will not be in the plain one that follows.
func (s *Snapshot) departs(m view.Member) bool {
	if s.Abandon {
		return m.Joining
	}
	return m.Leaving
}

// unsettled says why no view can follow the recorded one yet, and reports whether that is so.
func (s *Snapshot) unsettled() (d Decision, unsettled bool) {
	for _, r := range s.Members {
		if r.Epoch > s.View.Epoch {
			d.Rebuild = true
			d.Waits = append(d.Waits, fmt.Sprintf("member %d holds the view of epoch %d, which is later than the "+
				"recorded one, %d: the record is behind; rebuild it",
				r.Member, r.Epoch, s.View.Epoch))
			return d, true
		}
	}
	if s.committed() {
		return d, false
	}
	if id := s.torn(); id != 0 {
		d.Rebuild = true
		d.Waits = append(d.Waits, fmt.Sprintf("member %d holds another view of epoch %d, and it is not known which "+
			"of the two a quorum holds: rebuild the record once one of them is",
			id, s.View.Epoch))
	} else {
		d.Waits = append(d.Waits, fmt.Sprintf("the view of epoch %d is not held by a quorum of its members yet",
			s.View.Epoch))
	}
	return d, true
}

// torn is a member that holds another view of the recorded one's epoch, or 0. It does so after the record was lost and
// made again, if it was told a view that too few others had heard of; it would never take on the record. Its view
// may yet be the one that a quorum takes on, unless the record is: members pass views on.
func (s *Snapshot) torn() view.MemberID {
	for _, r := range s.Members {
		if r.Epoch == s.View.Epoch && r.Digest != s.digest() && !s.lost(r.Member) {
			return r.Member
		}
	}
	return 0
}

// part is what a member said of its part in a partition of the term that the view has.
func (s *Snapshot) part(id view.MemberID, partition int) Part {
	p, _ := s.said(id, partition)
	return p
}

// said is that, and whether it said anything.
func (s *Snapshot) said(id view.MemberID, partition int) (Part, bool) {
	r := s.report(id)
	if r == nil || partition >= len(r.Partitions) || r.Partitions[partition].Term != s.View.Partitions[partition].Term {
		return Part{}, false
	}
	return r.Partitions[partition], true
}

// neverServed reports whether one who had a part in a term says that it did not get what the term was to recover:
// nothing was answered in it, and a later one needs nothing of it (curp.Protocol.neverServed, which asks again when
// the term is over).
func (s *Snapshot) neverServed(partition int, f view.Former) bool {
	return slices.ContainsFunc(servedBy(f), func(id view.MemberID) bool { return s.neverHad(id, partition, f) })
}

// neverHad reports whether a member says that it never had what a term was to recover.
func (s *Snapshot) neverHad(id view.MemberID, partition int, f view.Former) bool {
	p, told := s.said(id, partition)
	return told && !s.lost(id) && p.NotedTerm < f.Term
}

// needed are the former terms of a partition and the present one, which a later one has to recover from: not those
// that are known never to have served, by who holds the view in which they are over.
func (s *Snapshot) needed(partition int) (formers []view.Former) {
	p := s.View.Partitions[partition]
	for _, f := range p.Formers {
		over := func(id view.MemberID) bool { return s.neverHad(id, partition, f) && s.holds(id) }
		if !slices.ContainsFunc(servedBy(f), over) {
			formers = append(formers, f)
		}
	}
	return append(formers, p.Former())
}

// servedBy are the master and the backups of a term.
func servedBy(f view.Former) []view.MemberID { return append([]view.MemberID{f.Master}, f.Backups...) }

// misses reports whether a member may lack what was synced in a term: it had no part in it, nor in a later one that
// had recovered it.
func (s *Snapshot) misses(id view.MemberID, partition int, f view.Former) bool {
	return !f.Has(id) && f.Term >= s.part(id, partition).WholeTerm && !s.neverServed(partition, f)
}

// intact reports whether a member holds the recorded view on the disk that the view names. That a lost disk holds it is
// nothing to rebuild the record from.
func (s *Snapshot) intact(id view.MemberID) bool { return s.holds(id) && !s.lost(id) }

// committed reports whether the recorded view is committed.
func (s *Snapshot) committed() bool {
	return s.View.Quorum(s.intact)
}

// digest is the recorded view's, which is worked out once for a decision.
func (s *Snapshot) digest() string {
	if s.known == "" {
		s.known = s.View.Digest()
	}
	return s.known
}

// domain is what a member or a witness is lost with.
func (p *Placement) domain(v *view.View, id view.MemberID) string {
	w, known := v.Witness(id)
	if w.Beside != 0 {
		return p.domain(v, w.Beside)
	}
	if d, given := p.Domains[id]; given {
		return d
	}
	if i := v.Index(id); i >= 0 {
		w.Site, known = v.Members[i].Site, true
	}
	if !known {
		return ""
	}
	return "site " + w.Site
}

// witnesses is how many witnesses a partition with so many backups should have.
func (p *Placement) witnesses(backups int) int {
	if p.Faults == 0 {
		return p.Alone
	}
	return min(p.Faults, backups)
}

// Validate reports what makes a placement unusable for a view.
func (p *Placement) Validate(v view.View) error {
	switch {
	case p.Partitions < 1:
		return fmt.Errorf("place partitions: %d of them; there has to be one for each shard", p.Partitions)
	case p.Faults < 0:
		return fmt.Errorf("place partitions: faults is %d; it can't be negative", p.Faults)
	}
	for i, home := range p.Homes {
		if home != "" && !slices.ContainsFunc(v.Members, func(m view.Member) bool { return m.Site == home }) {
			return fmt.Errorf("place partition %d: no member is at site %q, its home", i, home)
		}
	}
	return nil
}
