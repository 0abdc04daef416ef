package check

import (
	"fmt"
	"slices"

	witnessv1 "github.com/georegister/georegister/api/witness/v1"
	"github.com/georegister/georegister/witness/core"
)

// gcRounds are more rounds of gc than a request has to outlast until it is suspected (cache.StaleAfter).
const gcRounds = 5

// sameSuspects reports a request that one witness suspects to be garbage, and another one with the same requests does
// not as soon: what a log says of a request's age is the same when it is compacted (section 4.5). Neither is of use
// afterwards. Held are the requests of a life.
func sameSuspects(one, other *core.Witness, l core.Life, held []savedID) error {
	for round := range gcRounds {
		first, second := suspects(one, l, held), suspects(other, l, held)
		if !slices.Equal(first, second) {
			return fmt.Errorf("in round %d of gc it suspects the requests %v of term %d of partition %d, and %v after "+
				"its log was compacted", round+1, first, l.Term, l.Partition, second)
		}
	}
	return nil
}

// suspects are the requests that a life suspects in a round of gc, when all of them have been in the way of others.
func suspects(w *core.Witness, l core.Life, held []savedID) []savedID {
	for _, s := range held {
		w.Receive(1, &witnessv1.Message{
			Kind: witnessv1.Kind_RECORD, Partition: l.Partition, Term: l.Term, Hashes: []uint64{s.hash},
			Id: &witnessv1.ID{Session: ^s.session, Number: 1},
		})
	}
	w.Receive(1, &witnessv1.Message{Kind: witnessv1.Kind_GC, Partition: l.Partition, Term: l.Term})
	e := w.Ready()
	var found []savedID
	for _, a := range slices.Concat(e.Send, e.After) {
		if a.Message.Kind == witnessv1.Kind_GC_REPLY {
			found = append(found, savedOf(a.Message.Requests)...)
		}
	}
	slices.SortFunc(found, savedID.compare)
	return found
}
