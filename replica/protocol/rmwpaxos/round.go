package rmwpaxos

import (
	"github.com/georegister/georegister/replica/protocol/base"
)

// round orders proposals (section 5.3, rounds): by its number alone. Two rounds of one number and different ids are
// neither equal nor in an order, so "higher" compares numbers and "equal" compares both. The id is the proposer with
// its attempt; no round is issued twice. The zero round is the initial one, r_voted = (0, ⊥).
type round = base.Ballot

// above is r > s of the paper.
func above(r, s round) bool { return r.Number > s.Number }

// sameID reports whether two rounds are of one attempt.
func sameID(r, s round) bool { return r.Proposer == s.Proposer && r.Attempt == s.Attempt }

// successor is the round that acceptors grant with their vote in r (section 5.8, fast writes).
func successor(r round) round { return numbered(r, r.Number+1) }

// numbered is a round of the same attempt with another number.
func numbered(r round, n uint64) round {
	r.Number = n
	return r
}

// join is what an acceptor has promised that has promised both: the higher round. Of two with one number, at most one
// was ever granted by a quorum, and it is not known here which; so neither is voted for.
func join(r, s round) round {
	switch {
	case above(s, r):
		return s
	case r.Number == s.Number && r != s:
		return round{Number: r.Number}
	}
	return r
}
