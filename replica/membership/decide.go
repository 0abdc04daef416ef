package membership

import (
	"fmt"
	"slices"

	"github.com/georegister/georegister/replica/view"
)

// Kind says what the next view of a decision changes.
type Kind int

const (
	Unchanged Kind = iota // nothing, or there is no next view

	// Of the members.
	Begun     // it is the joint view of the change that was wanted
	Finished  // it is the plain view after the change
	Abandoned // it is the plain view of the members before the change

	// Of who is in the view beside members, and which view of an epoch is the cluster's.
	WitnessesChanged
	ViewSuperseded

	// Of a partition.
	MasterReplaced   // another member is its master, since the former one can't be
	MasterHandedOver // another member is its master, since that is wanted
	MasterRecovered  // the recovery from former terms is over
	BackupReplaced   // of its backups one is gone that is not heard
	WitnessReplaced  // of its witnesses one is gone that is not heard
	PartitionSplit   // half of its keys go to a partition of their own
	PartitionMoved   // others keep it, for any other reason
)

// Move is one thing that the next view changes.
type Move struct {
	Kind      Kind
	Partition int    // that it is about; -1: none
	Why       string // for people
}

// String says it to people.
func (m Move) String() string {
	if m.Partition < 0 {
		return m.Why
	}
	return fmt.Sprintf("partition %d: %s", m.Partition, m.Why)
}

// Cause says why a change is abandoned, or is to be.
type Cause int

const (
	NoCause      Cause = iota
	Asked              // Snapshot.Abandon
	NotWanted          // Snapshot.Unwanted
	NewcomerLost       // a newcomer is hopeless before the change can be finished
	TooFewLeft         // no majority of the members after the change is left (Snapshot.Hopeless, Snapshot.Lost)
	NobodyWorks        // all who are not hopeless are done, and the change can't be finished
)

// Wait says what a change of members waits for.
type Wait int

const (
	NoWait       Wait = iota
	ForView           // a quorum of the recorded view to hold it
	ForNewcomers      // newcomers to name their disks
	ForParts          // members to settle and to fetch what they have to
	ForAnswers        // a majority of the members before the change to answer, so that it can be abandoned
)

// Decide decides on the view that follows the recorded one, for every protocol: it is the one place where a change of
// members begins, is finished or is abandoned. One step at a time, and none before the recorded view is committed, but
// for the end of a change that is abandoned. The caller records the next view, and tells it to members only then.
//
// Where there are partitions, it also decides who keeps them; a change begins when nothing is to be done there.
func Decide(s Snapshot) (d Decision) {
	if len(s.View.Partitions) > 0 {
		d = s.keep()
		if d.Changed() || s.View.Joint() || len(s.Join)+len(s.Leave) == 0 {
			return d
		}
	} else if s.View.Joint() {
		return s.conclude()
	}
	return s.begin(d)
}

// keep decides where there are partitions: on who is in the view, then on who keeps what. What the first waits for
// keeps the second from nothing.
func (s *Snapshot) keep() Decision {
	d, unsettled := s.unsettled()
	if unsettled {
		return s.giveBack(d)
	}
	if id := s.torn(); id != 0 {
		d.change(ViewSuperseded, "member %d holds another view of epoch %d, from before the record was lost; the "+
			"next one is for all", id, s.View.Epoch)
		d.Next = s.View
		d.Next.Epoch, d.Next.Issued = s.View.Epoch+1, s.View.LastIssued()
		return d
	}
	if s.decideMembers(&d); !d.Changed() {
		s.decidePartitions(&d)
	}
	return d
}

// begin makes the joint view of the change that is wanted, if there is one, once the plain view is committed and the
// newcomers have named their disks. Else the decision stays as it is, with what is waited for.
func (s *Snapshot) begin(d Decision) Decision {
	if !s.View.Quorum(s.holds) {
		d.Wait = ForView
		return d
	}
	if len(s.Join)+len(s.Leave) == 0 {
		return d
	}
	for _, newcomer := range s.Join {
		if newcomer.Disk == "" {
			d.For = append(d.For, newcomer.ID)
		}
	}
	if len(d.For) > 0 {
		d.Wait = ForNewcomers
		return d
	}
	if d.Next, d.Err = Change(s.View, s.Join, s.Leave); d.Err == nil {
		d.Kind = Begun
	}
	return d
}

// conclude ends the change of a joint view of a protocol without partitions, if it can or has to.
func (s *Snapshot) conclude() (d Decision) {
	safe, rest := s.finishable()
	d.Rest = rest
	for _, id := range rest {
		if !slices.Contains(s.Hopeless, id) && !(safe && slices.Contains(s.Absent, id)) {
			d.For = append(d.For, id)
		}
	}
	held := s.View.Quorum(s.holds)
	d.Cause = s.Pointless(safe)
	if d.Cause == NoCause && !safe && held && len(d.For) == 0 {
		d.Cause = NobodyWorks
	}
	switch {
	case d.Cause == Asked:
		d.end(s, Abandoned)
	case safe && len(d.For) == 0:
		d.Cause = NoCause
		d.end(s, Finished)
	case d.Cause != NoCause && !s.View.Before().Quorum(func(id view.MemberID) bool { return s.report(id) != nil }):
		d.Wait = ForAnswers // to abandon it can't fail those before the change, but helps only if they are there
	case d.Cause != NoCause:
		d.end(s, Abandoned)
	case !held:
		d.Wait = ForView
	default:
		d.Wait = ForParts
	}
	return d
}

// end makes the plain view with which a change ends.
func (d *Decision) end(s *Snapshot, kind Kind) {
	by := Finish
	if kind == Abandoned {
		by = Abandon
	}
	if d.Next, d.Err = by(s.View); d.Err == nil {
		d.Kind = kind
	}
}

// endDrained is end where there are partitions: what keeps the change from its end is waited for.
func (d *Decision) endDrained(s *Snapshot, kind Kind, how string) {
	if d.end(s, kind); d.Err != nil {
		d.Waits, d.Err = append(d.Waits, d.Err.Error()), nil
		return
	}
	d.change(kind, "the change of members is %s", how)
}

// Pointless says why the members after the change of a joint view are not worth waiting for, or NoCause. It matters
// whether the change could be finished without those who are not done: then a newcomer that is hopeless is no reason.
func (s *Snapshot) Pointless(safe bool) Cause {
	hopeless := func(id view.MemberID) bool { return slices.Contains(s.Hopeless, id) }
	switch after := s.View.After(); {
	case s.Abandon:
		return Asked
	case s.Unwanted:
		return NotWanted
	case !safe && slices.ContainsFunc(s.View.Members, func(m view.Member) bool { return m.Joining && hopeless(m.ID) }):
		return NewcomerLost
	case !after.Quorum(func(id view.MemberID) bool { return !hopeless(id) && !slices.Contains(s.Lost, id) }):
		return TooFewLeft
	}
	return NoCause
}

// holds reports whether a member says that it holds the recorded view.
func (s *Snapshot) holds(id view.MemberID) bool {
	r := s.report(id)
	return r != nil && r.Digest == s.digest()
}
