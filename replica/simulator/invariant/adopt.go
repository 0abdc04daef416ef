package invariant

import (
	"cmp"
	"fmt"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol/base"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/simulator/field"
)

// Adopts holds what a member has of a record once it has taken in a page of another member's state: no less than the
// page, and no less than it had before. In one batch of records there may be several pages, of which the disk shows the
// last.
func (r *Run) Adopts(s Speaker, page *peerv1.Record, before []byte, has Records) {
	told, known, err := read(page.Key, page.Value)
	if r.Broken != nil || !known || err != nil || page.Key[0] == own || page.Key[0] == instances {
		return // an instance is heard of, and not voted on; another record may name it already
	}
	now, _ := has(page.Key)
	is, _, _ := read(page.Key, now)
	why := is.lacks(told)
	if page.Key[0] == undecided {
		is := recordOfGus(now)
		for _, was := range []gusRecord{recordOfGus(page.Value), recordOfGus(before)} {
			why = cmp.Or(why, is.lacks(was))
			if why == "" && was.final() && was.tag() == is.tag() && !is.final() {
				why = fmt.Sprintf("tag %v as one that is not final", is.tag())
			}
		}
	}
	if page.Key[0] == acceptors {
		why = cmp.Or(why, ballotsLack(now, page.Value), ballotsLack(now, before))
		if epoch := field.Number(now, 3); why == "" && epoch != 0 && acceptedIn(now) != acceptedIn(before) {
			why = fmt.Sprintf("what it has copied for its own vote of epoch %d", epoch)
		}
	}
	if why != "" {
		r.broken(s.ID, "has taken in a page with %s, and has %s", show(page.Key), why)
	}
}

// ballotsLack is in what the ballots of an RMWPaxosRecord are less than those of another one; empty: in nothing.
func ballotsLack(now, before []byte) string {
	switch is, was := promisedIn(now), promisedIn(before); {
	case is.Number < was.Number, is.Number == was.Number && !sameOrJoined(is, was):
		return fmt.Sprintf("a promise of ballot %s, not of %s", showBallot(is), showBallot(was))
	}
	if is, was := acceptedIn(now), acceptedIn(before); is.Number < was.Number ||
		is.Number == was.Number && ordered(is, was) && is.Proposer < was.Proposer {
		return fmt.Sprintf("a vote in ballot %s, not in %s", showBallot(is), showBallot(was))
	}
	return ""
}

// ordered reports whether ballots are in an order by their proposers, if they have one number: those of CASPaxos are.
// Rounds of RMWPaxos are not, and have attempts.
func ordered(b, c base.Ballot) bool { return b.Attempt == 0 && c.Attempt == 0 }

// sameOrJoined reports whether a promise covers another one of the same number: it is of the same ballot or, where they
// are in an order, of a higher one; where they are not, it is of no proposer, and neither is voted for.
func sameOrJoined(is, was base.Ballot) bool {
	return is == was || ordered(is, was) && is.Proposer > was.Proposer || !ordered(is, was) && is.Proposer == 0
}

// promisedIn and acceptedIn are the ballots in an RMWPaxosRecord: of what is promised, where nothing else is said, that
// which is accepted, with a number higher by so much.
func promisedIn(record []byte) base.Ballot {
	if raw := field.Part(record, 1); raw != nil {
		return readBallot(raw)
	}
	promised := acceptedIn(record)
	promised.Number += field.Number(record, 9)
	return promised
}

func acceptedIn(record []byte) base.Ballot { return readBallot(field.Part(record, 2)) }

func readBallot(raw []byte) base.Ballot {
	return base.Ballot{
		Number: field.Number(raw, 1), Proposer: register.Writer(field.Number(raw, 2)), Attempt: field.Number(raw, 3),
	}
}

func showBallot(b base.Ballot) string { return fmt.Sprintf("%d of %v", b.Number, b.Proposer) }
