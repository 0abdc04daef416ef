package bounds

import (
	"errors"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/register"
)

// unbounded are the numbers that need no bound, and why.
var unbounded = map[string]string{
	"Message.epoch": "has to be the receiver's own", "Message.op": "is drawn, or echoes what was asked",
	"Message.writer": "is a writer", "Dependency.writer": "is a writer", "Answer.writer": "is a writer", "InstanceID.writer": "is a writer",
	"RegisterRecord.writer": "is a writer", "Gus.proposer": "is a writer", "Gus.voted_proposer": "is a writer", "Gus.newest_writer": "is a writer",
	"RMWPaxosRound.proposer": "is a writer", "RMWPaxosRound.attempt": "is told apart, and never counted on from", "Fragment.writer": "is a writer", "Fragment.number": "is a name",
	"Command.session": "is a client's", "Command.number": "is a client's", "Command.first_incomplete": "is a client's",
	"Command.max_value_bytes": "limits what one call produces", "Session.session": "is a client's", "Session.first_incomplete": "is a client's",
	"Done.number": "is a client's", "KeyState.horizon_session": "is a client's", "LogEntry.session": "is a client's", "LogEntry.number": "is a client's",
	"Curp.nonce": "is drawn", "Curp.view": "is a digest", "ID.session": "is a client's", "ID.number": "is a client's", "Drop.hash": "is a digest",
	"Message.hashes": "are digests", "Request.hashes": "are digests", "Message.offset": "counts what was received",
	"Transfer.compared": "is a measure", "Transfer.remaining": "is a measure", "Session.done": "tells of the past", "Life.term": "is the witness's own",
	"Message.start": "is the number of a process, at random, or bounded with batches", "Message.view": "is a digest",
}

type variant struct {
	name    string
	message protoreflect.Message
}

// variants are messages in each of which one number is above its bound.
func variants(m protoreflect.Message, above map[protoreflect.FullName]bool) (all []variant) {
	d := m.Descriptor()
	if above[d.FullName()] {
		return nil
	}
	above[d.FullName()] = true
	defer delete(above, d.FullName())
	for i := range d.Fields().Len() {
		f := d.Fields().Get(i)
		name := string(d.Name()) + "." + string(f.Name())
		with := func(v protoreflect.Value) protoreflect.Message {
			n := m.New()
			if f.IsList() {
				n.Mutable(f).List().Append(v)
			} else {
				n.Set(f, v)
			}
			return n
		}
		switch _, free := unbounded[name]; {
		case free:
		case f.Kind() == protoreflect.Uint64Kind, f.Kind() == protoreflect.Fixed64Kind:
			all = append(all, variant{name, with(protoreflect.ValueOfUint64(register.MaxNumber + 1))})
		case f.Kind() == protoreflect.MessageKind:
			child := m.NewField(f)
			if f.IsList() {
				child = child.List().NewElement()
			}
			for _, v := range variants(child.Message(), above) {
				all = append(all, variant{name + " " + v.name, with(protoreflect.ValueOfMessage(v.message))})
			}
		}
	}
	return all
}

// Every number of a message has a bound, or a reason why it needs none: one that is new is found here.
func TestEveryNumberIsBounded(t *testing.T) {
	all := variants((&peerv1.Message{}).ProtoReflect(), map[protoreflect.FullName]bool{})
	for _, v := range all {
		if err := Message(v.message.Interface().(*peerv1.Message)); !errors.Is(err, register.ErrNumber) {
			t.Errorf("%s is taken above its bound: %v", v.name, err)
		}
	}
	if len(all) < 30 {
		t.Errorf("%d numbers were found", len(all))
	}
}

func TestIncarnationsAreBounded(t *testing.T) {
	const most = 1<<16 - 1
	for _, m := range []*peerv1.Message{{Incarnation: most}, {Known: []uint32{1, most}}, {Transfer: &peerv1.Transfer{Incarnation: most}},
		{Timestamp: register.MaxNumber}} {
		if err := Message(m); err != nil {
			t.Errorf("%v: %v", m, err)
		}
	}
	for _, m := range []*peerv1.Message{{Incarnation: most + 1}, {Known: []uint32{1, most + 1}}, {Transfer: &peerv1.Transfer{Incarnation: most + 1}}} {
		if err := Message(m); !errors.Is(err, register.ErrNumber) {
			t.Errorf("%v: %v", m, err)
		}
	}
}
