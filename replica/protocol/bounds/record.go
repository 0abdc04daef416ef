package bounds

import (
	"reflect"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
)

// Record reports a record of a member's own disk with a number that nobody can have counted up to. A member counts on
// from what others tell it, so most bounds are twice those of what is told. The error wraps register.ErrNumber: such a
// disk is a lost one.
func Record(r any) error { return counted().record(r) }

// Told reports a record of another member's disk, as Message does what it says.
func Told(r any) error { return told().record(r) }

// Decode reads a record that marshals itself, and checks it by Record or Told.
func Decode(raw []byte, r interface{ UnmarshalVT([]byte) error }, check func(any) error) error {
	if err := r.UnmarshalVT(raw); err != nil {
		return err
	}
	return check(r)
}

func (c check) record(r any) error {
	switch r := r.(type) {
	case *peerv1.RegisterRecord:
		c.stamps(r.GetTimestamp(), r.GetRmws())
	case *peerv1.KeyState:
		c.state(r)
	case *peerv1.Message:
		c.message(r)
	case *peerv1.GusRecord:
		c.stamps(r.GetTimestamp(), r.GetForgotten())
		for _, w := range r.GetWrites() {
			c.of(w.GetOrigin(), w.GetBorn(), w.GetPromisedRound(), w.GetVoted(), w.GetVotedRound(), w.GetDecided())
		}
	case *peerv1.RMWPaxosRecord:
		c.stamps(r.GetTimestamp())
		c.of(r.GetAck().GetN(), r.GetVoted().GetN(), r.GetVotedIn(), r.GetAckAbove())
		c.of(r.GetVoted().GetN() + r.GetAckAbove())
	case *peerv1.RaftHard:
		c.of(r.GetTerm(), r.GetCommit())
	case *peerv1.RaftStart:
		c.of(r.GetIndex(), r.GetTerm())
	case *peerv1.RaftApplied:
		c.of(r.GetIndex(), r.GetTerm(), r.GetServed())
		c.epochs(r.GetEpoch())
	case *peerv1.RaftEntry:
		c.epochs(r.GetEpoch())
	case *peerv1.Answer:
		c.of(r.GetTimestamp(), r.GetRmws())
	case *peerv1.LogEntry:
		c.entry(r)
	case *peerv1.PartitionRecord:
		c.of(r.GetApplied(), r.GetCommit(), r.GetFloor(), r.GetStart(), r.GetThrough(), r.GetWholeIndex())
		c.epochs(r.GetTerm(), r.GetRecovered(), r.GetBorn(), r.GetBroken(), r.GetWholeTerm(), r.GetNotedTerm())
		c.history(r.GetHistory())
	case *peerv1.PartitionSession:
		c.of(r.GetUsedAt())
		c.epochs(r.GetUsedIn())
	case *peerv1.PositionRecord:
		c.positions(r.GetPositions())
	case *peerv1.MemberRecord:
		c.epochs(r.GetEpoch())
		c.incarnations(r.GetIncarnation())
		c.incarnations(r.GetKnown()...)
	case *peerv1.TransferRecord:
		c.epochs(r.GetEpoch())
		for _, s := range r.GetSources() {
			c.incarnations(s.GetIncarnation())
		}
	default:
		panic("the bounds of such a record are not known")
	}
	if c.above == 0 {
		return nil
	}
	return c.report("the record " + reflect.TypeOf(r).Elem().Name())
}
