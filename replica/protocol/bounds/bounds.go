// Package bounds tells messages whose numbers somebody can have counted up to from those that are broken or made up. One number near the
// largest there is would end a key, or a whole member: nothing could come after it.
package bounds

import (
	"fmt"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/register"
)

// maxIncarnation is as many bits as a register.Writer has for it.
const maxIncarnation = 1<<16 - 1

// Message reports a message of a peer with a number above its bound: register.MaxNumber, or 65535 for incarnations. Numbers that are drawn
// at random or chosen by clients have none. The error wraps register.ErrNumber.
func Message(m *peerv1.Message) error {
	l := largest(0)
	l.of(m.Timestamp, m.Rmws)
	for _, d := range m.After {
		l.of(d.Timestamp, d.Rmws)
	}
	l.instance(m.Instance)
	l.curp(m.Curp)
	if g := m.Gus; g != nil {
		l.of(g.Origin, g.Round, g.Born, g.Voted, g.VotedRound, g.Newest, g.Ended)
	}
	if r := m.RmwPaxos; r != nil {
		l.of(r.GetRound().GetN(), r.GetVoted().GetN(), r.VotedIn) // attempts are told apart, and never counted from what others say
	}
	l.of(m.GetWitness().GetTerm(), m.GetWitness().GetPromises())
	l.of(m.Start, m.Batches)
	for _, p := range m.Positions {
		l.of(p.GetStart(), p.GetBatches(), p.GetBefore())
	}
	if l > register.MaxNumber {
		return fmt.Errorf("message %v tells of number %d: %w", m.Kind, l, register.ErrNumber)
	}
	incarnation := max(m.Incarnation, m.GetTransfer().GetIncarnation())
	for _, known := range m.Known {
		incarnation = max(incarnation, known)
	}
	if incarnation > maxIncarnation {
		return fmt.Errorf("message %v tells of incarnation %d: %w", m.Kind, incarnation, register.ErrNumber)
	}
	return nil
}

// Register reports a register on disk that no write can have made. The error wraps register.ErrNumber.
func Register(r *peerv1.RegisterRecord) error {
	return register.Carstamp{Timestamp: r.GetTimestamp(), Writer: register.Writer(r.GetWriter()), RMWs: r.GetRmws()}.Check()
}

// State reports the state of a key that nobody can have come to. The error wraps register.ErrNumber.
func State(s *peerv1.KeyState) error {
	l := largest(0)
	l.state(s)
	return l.check("state of a key")
}

// Hard reports a term or index of a log that nobody can have come to. The error wraps register.ErrNumber.
func Hard(h *peerv1.RaftHard) error {
	l := largest(0)
	l.of(h.GetTerm(), h.GetCommit())
	return l.check("term of a log")
}

// Applied reports how far a log is applied if it can't be so far. The error wraps register.ErrNumber.
func Applied(a *peerv1.RaftApplied) error {
	l := largest(0)
	l.of(a.GetIndex(), a.GetTerm())
	return l.check("place in a log")
}

func (l largest) check(what string) error {
	if l > register.MaxNumber {
		return fmt.Errorf("%s tells of number %d: %w", what, l, register.ErrNumber)
	}
	return nil
}

// largest is the largest number that was seen.
type largest uint64

func (l *largest) of(numbers ...uint64) {
	for _, n := range numbers {
		*l = max(*l, largest(n))
	}
}

func (l *largest) instance(i *peerv1.Instance) {
	if i == nil {
		return
	}
	l.of(i.GetId().GetNumber(), i.Ballot, i.AcceptedBallot, i.Seq)
	for _, d := range i.Deps {
		l.of(d.GetNumber())
	}
	l.answers(i.Answers)
	l.state(i.State)
}

func (l *largest) state(s *peerv1.KeyState) {
	if s == nil {
		return
	}
	l.of(s.GetPrevious().GetTimestamp(), s.GetPrevious().GetRmws(), s.Count, s.Seq)
	for _, e := range s.Executed {
		l.of(e.GetId().GetNumber(), e.Reads)
		l.answers(e.Answers)
	}
}

func (l *largest) answers(all []*peerv1.Answer) {
	for _, a := range all {
		l.of(a.GetTimestamp(), a.GetRmws())
	}
}

func (l *largest) curp(c *peerv1.Curp) {
	if c == nil {
		return
	}
	l.of(c.Term, c.Last, c.Commit, c.Start, c.WholeTerm, c.WholeIndex, c.GetAnswer().GetTimestamp(), c.GetAnswer().GetRmws())
	for _, e := range c.Entries {
		l.of(e.GetTerm(), e.GetIndex())
	}
	for _, t := range c.History {
		l.of(t.GetTerm(), t.GetStart())
	}
}
