package invariant

import (
	"fmt"

	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/view"
)

// Persists holds a batch that becomes durable against what the disk had before it: whatever is said of a record later
// must not be less than what was said of it before. What an instance did is in its key's state once its record is gone.
func (r *Run) Persists(who view.MemberID, disk Records, b protocol.Batch) {
	if r.Broken != nil {
		return
	}
	for _, m := range b.Mutations {
		before, _ := disk(m.Key)
		was, known, _ := read(m.Key, before)
		if !known {
			continue
		}
		is, _, err := read(m.Key, m.Value)
		why := ""
		switch {
		case err != nil:
			why = err.Error()
		case m.Key[0] == instances && m.Value == nil:
			if !executed(m.Key, after(disk, b)) {
				why = "nothing, and its key's state does not have it"
			}
		default:
			if why = is.lacks(was); why == "" && m.Key[0] == undecided && before != nil {
				why = undecidedLacks(m.Value, before)
			}
		}
		if why != "" {
			r.broken(who, "takes back what its disk had of %s: it has %s", show(m.Key), why)
		}
	}
}

// after is what a disk has with a batch.
func after(disk Records, b protocol.Batch) Records {
	return func(key []byte) ([]byte, bool) {
		for i := len(b.Mutations) - 1; i >= 0; i-- {
			if m := &b.Mutations[i]; string(m.Key) == string(key) {
				return m.Value, m.Value != nil
			}
		}
		return disk(key)
	}
}

// undecidedLacks is what a record of Gus has less of than before: of a write that it has still, what was promised, voted
// and decided.
func undecidedLacks(now, before []byte) string {
	const forgotten = 7 // GusRecord.forgotten
	if is, was := number(now, forgotten), number(before, forgotten); is < was {
		return fmt.Sprintf("forgotten writes up to %d, not %d", is, was)
	}
	for was := range writes(before) {
		is, known := writeOf(now, was.origin)
		switch {
		case !known || is.decided != 0:
		case was.decided != 0:
			return fmt.Sprintf("write %v undecided", was.origin)
		case is.promised.less(was.promised):
			return fmt.Sprintf("a promise of round %d for write %v, not of %d", is.promised.round, was.origin, was.promised.round)
		case is.voted.less(was.voted):
			return fmt.Sprintf("a vote in round %d for write %v, not in %d", is.voted.round, was.origin, was.voted.round)
		}
	}
	return ""
}
