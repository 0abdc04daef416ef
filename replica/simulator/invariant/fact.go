package invariant

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"math"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol/wire"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/simulator/field"
	"github.com/georegister/georegister/replica/view"
	"google.golang.org/protobuf/encoding/protowire"
)

// fact is how far a record is, or how far a message says that it is. Nothing of it ever gets less. Of ballots it has
// the number alone: protocols differ in how they order ballots of one number.
type fact struct {
	carstamp register.Carstamp // of a register
	promised uint64            // ballot
	accepted uint64            // ballot
	count    uint64            // of a state: changes; of an instance: its status; of a member: its incarnation
	seq      uint64            // of a state: the largest of the instances that it is after
}

// lacks is in what a fact is less than another one; empty: in nothing.
func (f fact) lacks(g fact) string {
	switch {
	case f.carstamp.Less(g.carstamp):
		return fmt.Sprintf("carstamp %v, not %v", f.carstamp, g.carstamp)
	case f.promised < g.promised:
		return fmt.Sprintf("a promise of ballot %d, not of %d", f.promised, g.promised)
	case f.accepted < g.accepted:
		return fmt.Sprintf("a vote in ballot %d, not in %d", f.accepted, g.accepted)
	case f.count < g.count:
		return fmt.Sprintf("count or status %d, not %d", f.count, g.count)
	case f.seq < g.seq:
		return fmt.Sprintf("seq %d, not %d", f.seq, g.seq)
	}
	return ""
}

// The first bytes of the keys of records; the key of a register follows, or, in instances, the instance's name before
// it.
const (
	registers = 'r'
	acceptors = 'p'
	instances = 'i'
	states    = 's'
	undecided = 'u' // registers of Gus
	own       = 'm' // of the member itself: its record has no more in its key
)

// records says how to read a record, by the first byte of its key.
var records = [256]func(raw []byte) (fact, error){
	registers: func(raw []byte) (fact, error) { // RegisterRecord
		return fact{carstamp: wire.Carstamp(field.Number(raw, 1), field.Number(raw, 2), field.Number(raw, 3))}, nil
	},
	acceptors: func(raw []byte) (f fact, err error) { // RMWPaxosRecord
		f.promised, f.accepted = promisedIn(raw).Number, acceptedIn(raw).Number
		if f.promised < f.accepted {
			err = fmt.Errorf("a vote in ballot %d and a promise of %d alone", f.accepted, f.promised)
		}
		return f, err
	},
	instances: func(raw []byte) (fact, error) { // Message
		i := instanceOf(raw)
		f := fact{promised: i.ballot, accepted: i.accepted, count: uint64(i.status)}
		if i.status == peerv1.Status_COMMITTED { // in whatever ballot: no other attributes can be voted for
			f.accepted = math.MaxUint64
		}
		return f, nil
	},
	states: func(raw []byte) (fact, error) { // KeyState
		return fact{count: field.Number(raw, 2), seq: field.Number(raw, stateSeq)}, nil
	},
	undecided: func(raw []byte) (fact, error) { // GusRecord
		return fact{carstamp: wire.Carstamp(field.Number(raw, 1), field.Number(raw, 2), 0)}, nil
	},
	own: func(raw []byte) (fact, error) { // MemberRecord
		return fact{promised: field.Number(raw, 5), count: field.Number(raw, 1)}, nil
	},
}

// votes reports whether a MemberRecord says that its member votes.
func votes(raw []byte) bool { return field.Number(raw, 2) != 0 }

// diskOf is the number of another member's disk that a MemberRecord knows of.
func diskOf(raw []byte, id view.MemberID) uint64 {
	known, members := field.Part(raw, 3), field.Part(raw, 4)
	for len(members) > 0 {
		member, size := protowire.ConsumeVarint(members)
		if size < 0 {
			break
		}
		members = members[size:]
		number, size := protowire.ConsumeVarint(known)
		if size < 0 {
			break
		}
		known = known[size:]
		if view.MemberID(member) == id {
			return number
		}
	}
	return 1 // all are first ones
}

// anInstance is what a record has of an instance.
type anInstance struct {
	since, ballot, accepted uint64
	status                  peerv1.Status
	agreed                  bool
}

// instanceOf reads a Message with an Instance.
func instanceOf(raw []byte) anInstance {
	i := field.Part(raw, 14)
	return anInstance{
		since: field.Number(raw, 3), ballot: field.Number(i, 2), accepted: field.Number(i, 3), status: peerv1.Status(field.Number(i, 4)),
		agreed: field.Number(i, 7) != 0,
	}
}

// read reads a record, and reports false if there are no rules for its kind.
func read(key, raw []byte) (fact, bool, error) {
	if len(key) == 0 || key[0] == own && len(key) > 1 {
		return fact{}, false, nil
	}
	of := records[key[0]]
	if of == nil || raw == nil {
		return fact{}, of != nil, nil
	}
	f, err := of(raw)
	return f, true, err
}

// recordKey is the key of a record.
func recordKey(prefix byte, key []byte) []byte { return append([]byte{prefix}, key...) }

// instanceKey is the key of an instance's record.
func instanceKey(key []byte, id *peerv1.InstanceID) []byte {
	b := binary.BigEndian.AppendUint64([]byte{instances}, id.GetWriter())
	return append(binary.BigEndian.AppendUint64(b, id.GetNumber()), key...)
}

// instanceHead is how many bytes of an instance's key come before the key of its register.
const instanceHead = 1 + 8 + 8

// The numbers of the fields KeyState.executed and KeyState.seq.
const stateExecuted, stateSeq = 3, 7

// executions visits what a state (KeyState) has of the last instance or batch of each writer: an Executed.
func executions(state []byte, visit func(writer, number uint64, executed []byte)) {
	_ = field.Visit(state, func(which int, _ uint64, part []byte) {
		if which == stateExecuted {
			id := field.Part(part, 1)
			visit(field.Number(id, 1), field.Number(id, 2), part)
		}
	})
}

// executed reports whether the state of a key has the instance of an instance's record.
func executed(instance []byte, has Records) bool {
	if len(instance) < instanceHead {
		return false
	}
	raw, ok := has(recordKey(states, instance[instanceHead:]))
	if !ok {
		return false
	}
	writer, most := binary.BigEndian.Uint64(instance[1:]), uint64(0)
	executions(raw, func(by, number uint64, _ []byte) {
		if by == writer {
			most = max(most, number)
		}
	})
	return most >= binary.BigEndian.Uint64(instance[9:])
}

// remembers reports whether a state (KeyState) has a request of a session: its answer, or that it is over. Of one that has
// forgotten sessions that is not known.
func remembers(state []byte, id register.ID) bool {
	forgetful, has := field.Number(state, 5) != 0, false
	_ = field.Visit(state, func(which int, _ uint64, part []byte) {
		if which != 4 || field.Number(part, 1) != id.Session { // KeyState.sessions
			return
		}
		has = has || field.Number(part, 2) > id.Number
		_ = field.Visit(part, func(which int, _ uint64, done []byte) {
			has = has || which == 4 && field.Number(done, 1) == id.Number
		})
	})
	return forgetful || has
}

// executedLacks is in what a state (KeyState) is behind an earlier one: of a writer that both have, its latest
// instance or batch has a lower number. None has number 0.
func executedLacks(now, before []byte) (why string) {
	numbers := map[uint64]uint64{} // never ranged over
	executions(now, func(writer, number uint64, _ []byte) {
		numbers[writer] = number
		if number == 0 {
			why = fmt.Sprintf("a batch of %v without a number", register.Writer(writer))
		}
	})
	executions(before, func(writer, number uint64, _ []byte) {
		if n, known := numbers[writer]; known && n < number {
			why = fmt.Sprintf("number %d of %v, not %d", n, register.Writer(writer), number)
		}
	})
	return why
}

// The numbers of the fields GusRecord.forgotten and GusRecord.forgotten_writer.
const forgotten, forgottenWriter = 7, 8

// aWrite is what a record of Gus has of a write that is not known to be final.
type aWrite struct {
	origin            register.Carstamp
	promised, voted   ballot
	votedFor, decided uint64 // timestamps of its tags
	held              bool   // the register had its first tag
	unsure            bool   // a lost disk of the member may have said something else of that
	born              uint64 // the epoch in which it began, where to hold a tag is to vote for it; else 0
}

// tagged reports whether a tag is the write's first one, or that which the member has voted for.
func (w *aWrite) tagged(c register.Carstamp) bool {
	return w.origin.Writer == c.Writer && (w.origin == c || w.votedFor == c.Timestamp)
}

// writes appends those of a GusRecord.
func writes(all []aWrite, raw []byte) []aWrite {
	_ = field.Visit(raw, func(which int, _ uint64, part []byte) {
		if which == 6 {
			all = append(all, readWrite(part))
		}
	})
	return all
}

// readWrite reads a GusWrite.
func readWrite(raw []byte) (w aWrite) {
	_ = field.Visit(raw, func(which int, n uint64, _ []byte) {
		switch which {
		case 1:
			w.origin.Timestamp = n
		case 2:
			w.origin.Writer = register.Writer(n)
		case 3:
			w.born = n
		case 4:
			w.held = n != 0
		case 5:
			w.promised.round = n
		case 6:
			w.promised.proposer = n
		case 7:
			w.votedFor = n
		case 8:
			w.voted.round = n
		case 9:
			w.voted.proposer = n
		case 13:
			w.decided = n
		case 14:
			w.unsure = n != 0
		}
	})
	return w
}

// writeOf is what a record of Gus has of one of its writes; it reports false if it has nothing.
func writeOf(all []aWrite, origin register.Carstamp) (aWrite, bool) {
	for i := range all {
		if all[i].origin == origin {
			return all[i], true
		}
	}
	return aWrite{}, false
}

// ballot is one of Gus.
type ballot struct{ round, proposer uint64 }

func (b ballot) less(c ballot) bool {
	return cmp.Or(cmp.Compare(b.round, c.round), cmp.Compare(b.proposer, c.proposer)) < 0
}

// show is a record's key for people.
func show(key []byte) string {
	switch {
	case len(key) == 1:
		return "itself"
	case key[0] == instances && len(key) >= instanceHead:
		writer, number := binary.BigEndian.Uint64(key[1:]), binary.BigEndian.Uint64(key[9:])
		return fmt.Sprintf("instance %v#%d of key %q", register.Writer(writer), number, key[instanceHead:])
	}
	return fmt.Sprintf("key %q", bytes.Clone(key[1:]))
}
