package bounds

import (
	peerv1 "github.com/georegister/georegister/api/peer/v1"
)

// Record reports a record of a member's own disk with a number that nobody can have counted up to. A member counts on
// from what others tell it, so most bounds are twice those of what is told. The error wraps register.ErrNumber: such a
// disk is a lost one.
func Record(r any) error {
	c := counted()
	what := c.record(r)
	return c.report(what)
}

// Told reports a record of another member's disk, as Message does what it says.
func Told(r any) error {
	c := told()
	what := c.record(r)
	return c.report(what)
}

// Decode reads a record that marshals itself, and checks it by Record or Told.
func Decode(raw []byte, r interface{ UnmarshalVT([]byte) error }, check func(any) error) error {
	if err := r.UnmarshalVT(raw); err != nil {
		return err
	}
	return check(r)
}

// record returns the name of the record, for people.
func (c *check) record(r any) string {
	switch r := r.(type) {
	case *peerv1.RegisterRecord:
		c.stamps(r.GetTimestamp(), r.GetRmws())
		return "the record of a register"
	case *peerv1.KeyState:
		c.state(r)
		return "the record of a key's state"
	case *peerv1.Message:
		c.message(r)
		return "the record of an instance"
	case *peerv1.GusRecord:
		c.stamps(r.GetTimestamp(), r.GetForgotten())
		for _, w := range r.GetWrites() {
			c.of(w.GetOrigin(), w.GetBorn(), w.GetPromisedRound(), w.GetVoted(), w.GetVotedRound(), w.GetDecided())
		}
		return "the record of a register and its writes"
	case *peerv1.RMWPaxosRecord:
		c.stamps(r.GetTimestamp())
		c.of(r.GetAck().GetN(), r.GetVoted().GetN(), r.GetVotedIn())
		return "the record of an acceptor"
	case *peerv1.RaftHard:
		c.of(r.GetTerm(), r.GetCommit())
		return "the record of a promised term"
	case *peerv1.RaftStart:
		c.of(r.GetIndex(), r.GetTerm())
		return "the record of a log's beginning"
	case *peerv1.RaftApplied:
		c.of(r.GetIndex(), r.GetTerm(), r.GetServed())
		c.epochs(r.GetEpoch())
		return "the record of how far a log is applied"
	case *peerv1.RaftEntry:
		c.epochs(r.GetEpoch())
		return "the record of an entry"
	case *peerv1.Answer:
		c.of(r.GetTimestamp(), r.GetRmws())
		return "the record of an answer"
	case *peerv1.LogEntry:
		c.entry(r)
		return "the record of a log"
	case *peerv1.PartitionRecord:
		c.of(r.GetApplied(), r.GetCommit(), r.GetFloor(), r.GetStart(), r.GetThrough(), r.GetWholeIndex())
		c.epochs(r.GetTerm(), r.GetRecovered(), r.GetBorn(), r.GetBroken(), r.GetWholeTerm(), r.GetNotedTerm())
		c.history(r.GetHistory())
		return "the record of a part in a partition"
	case *peerv1.PartitionSession:
		c.of(r.GetUsedAt())
		c.epochs(r.GetUsedIn())
		return "the record of a session"
	case *peerv1.PositionRecord:
		c.positions(r.GetPositions())
		return "the record of the others' positions"
	case *peerv1.MemberRecord:
		c.epochs(r.GetEpoch())
		c.incarnations(r.GetIncarnation())
		c.incarnations(r.GetKnown()...)
		return "the record of the member"
	case *peerv1.TransferRecord:
		c.epochs(r.GetEpoch())
		for _, s := range r.GetSources() {
			c.incarnations(s.GetIncarnation())
		}
		return "the record of a state transfer"
	}
	panic("the bounds of such a record are not known")
}
