package rmwpaxos

import (
	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/register"
)

// round orders proposals (section 5.3, rounds): by n alone. Two rounds of one n and different ids are neither equal nor
// in an order, so "higher" compares n and "equal" compares both. The zero round is the initial one, r_voted = (0, ⊥).
type round struct {
	n uint64
	// The id is of one attempt of one process: the proposer names its boot, so no round is issued twice.
	proposer register.Writer
	attempt  uint64
}

// above is r > s of the paper.
func (r round) above(s round) bool { return r.n > s.n }

// sameID reports whether two rounds are of one attempt.
func (r round) sameID(s round) bool { return r.proposer == s.proposer && r.attempt == s.attempt }

// next is the round that acceptors grant with their vote in r (section 5.8, fast writes).
func (r round) next() round { return round{r.n + 1, r.proposer, r.attempt} }

// numbered is a round of the same attempt with another n.
func (r round) numbered(n uint64) round { return round{n, r.proposer, r.attempt} }

// join is what an acceptor has promised that has promised both: the higher round. Of two with one n, at most one was
// ever granted by a quorum, and it is not known here which; so neither is voted for.
func (r round) join(s round) round {
	switch {
	case s.above(r):
		return s
	case r.n == s.n && r != s:
		return round{n: r.n}
	}
	return r
}

func (r round) wire() *peerv1.RMWPaxosRound {
	if r == (round{}) {
		return nil
	}
	return &peerv1.RMWPaxosRound{N: r.n, Proposer: uint64(r.proposer), Attempt: r.attempt}
}

func roundOf(r *peerv1.RMWPaxosRound) round {
	return round{r.GetN(), register.Writer(r.GetProposer()), r.GetAttempt()}
}
