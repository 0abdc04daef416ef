package bounds

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/register"
)

// unbounded are the numbers that need no bound, and why.
var unbounded = map[string]string{
	"Message.epoch": "has to be the receiver's own", "Message.op": "is drawn, or echoes what was asked",
	"Message.writer": "is a writer", "Dependency.writer": "is a writer", "Answer.writer": "is a writer",
	"InstanceID.writer":     "is a writer",
	"RegisterRecord.writer": "is a writer", "Gus.proposer": "is a writer", "Gus.voted_proposer": "is a writer",
	"Gus.newest_writer":      "is a writer",
	"RMWPaxosRound.proposer": "is a writer", "RMWPaxosRound.attempt": "is told apart, and never counted on from",
	"Fragment.writer": "is a writer", "Fragment.number": "is a name",
	"Command.session": "is a client's", "Command.number": "is a client's", "Command.first_incomplete": "is a client's",
	"Command.max_value_bytes": "limits what one call produces", "Session.session": "is a client's",
	"Session.first_incomplete": "is a client's",
	"Done.number":              "is a client's", "KeyState.horizon_session": "is a client's",
	"LogEntry.session": "is a client's", "LogEntry.number": "is a client's",
	"Curp.follows_session": "is a client's", "Curp.follows_number": "is a client's",
	"Curp.nonce": "is drawn", "Curp.view": "is a digest", "ID.session": "is a client's", "ID.number": "is a client's",
	"Drop.hash":      "is a digest",
	"Message.hashes": "are digests", "Request.hashes": "are digests", "Message.offset": "counts what was received",
	"Transfer.compared": "is a measure", "Transfer.remaining": "is a measure", "Session.done": "tells of the past",
	"Life.term":     "is the witness's own",
	"Message.start": "is the number of a process, at random, or bounded with batches", "Message.view": "is a digest",
	"RaftHard.vote": "is a member", "RaftAuthor.author": "is a writer",
	"RaftAuthor.first_incomplete": "is counted from a number that is drawn",
	"RaftAuthor.done":             "is counted from a number that is drawn", "RaftCommand.author": "is a writer",
	"RaftCommand.number":                "is counted from a number that is drawn",
	"RaftCommand.first_incomplete":      "is counted from a number that is drawn",
	"PartitionSession.first_incomplete": "is a client's",
	"TransferRecord.records":            "is a measure", "TransferRecord.bytes": "is a measure",
	"TransferRecord.same_bytes": "is a measure",
	"GusWrite.writer":           "is a writer", "GusWrite.promised_proposer": "is a writer",
	"GusWrite.voted_proposer": "is a writer",
	"GusRecord.writer":        "is a writer", "GusRecord.forgotten_writer": "is a writer",
	"RMWPaxosRecord.writer":  "is a writer",
	"SessionHorizon.session": "is a client's",
}

// records are those that members keep on their disks, and what is in them that is read by itself.
var records = []protoreflect.ProtoMessage{
	&peerv1.RegisterRecord{}, &peerv1.KeyState{}, &peerv1.Message{}, &peerv1.GusRecord{}, &peerv1.RMWPaxosRecord{},
	&peerv1.RaftHard{}, &peerv1.RaftStart{},
	&peerv1.RaftApplied{}, &peerv1.RaftEntry{}, &peerv1.Answer{}, &peerv1.LogEntry{}, &peerv1.PartitionRecord{},
	&peerv1.PartitionSession{}, &peerv1.PositionRecord{}, &peerv1.MemberRecord{}, &peerv1.TransferRecord{},
}

// Variant is a message with one number set, and which.
type Variant struct {
	Name    string
	Message protoreflect.Message
}

// Variants are messages in each of which one number is n, or an incarnation one too high.
func Variants(m protoreflect.Message, n uint64, above map[protoreflect.FullName]bool) (all []Variant) {
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
			all = append(all, Variant{name, with(protoreflect.ValueOfUint64(n))})
		case f.Kind() == protoreflect.Uint32Kind && (f.Name() == "incarnation" || f.Name() == "known"):
			all = append(all, Variant{name, with(protoreflect.ValueOfUint32(1 << 16))})
		case f.Kind() == protoreflect.MessageKind:
			child := m.NewField(f)
			if f.IsList() {
				child = child.List().NewElement()
			}
			for _, v := range Variants(child.Message(), n, above) {
				all = append(all, Variant{name + " " + v.Name, with(protoreflect.ValueOfMessage(v.Message))})
			}
		}
	}
	return all
}

// Every number of a message has a bound, or a reason why it needs none: one that is new is found here.
func TestEveryNumberIsBounded(t *testing.T) {
	all := Variants((&peerv1.Message{}).ProtoReflect(), register.MaxNumber+1, map[protoreflect.FullName]bool{})
	for _, v := range all {
		if err := Message(v.Message.Interface().(*peerv1.Message)); !errors.Is(err, register.ErrNumber) {
			t.Errorf("%s is taken above its bound: %v", v.Name, err)
		}
	}
	if len(all) < 30 {
		t.Errorf("%d numbers were found", len(all))
	}
}

func TestIncarnationsAreBounded(t *testing.T) {
	const most = 1<<16 - 1
	for _, m := range []*peerv1.Message{{Incarnation: most}, {Known: []uint32{1, most}},
		{Transfer: &peerv1.Transfer{Incarnation: most}},
		{Timestamp: register.MaxNumber}} {
		if err := Message(m); err != nil {
			t.Errorf("%v: %v", m, err)
		}
	}
	for _, m := range []*peerv1.Message{
		{Incarnation: most + 1}, {Known: []uint32{1, most + 1}}, {Transfer: &peerv1.Transfer{Incarnation: most + 1}},
	} {
		if err := Message(m); !errors.Is(err, register.ErrNumber) {
			t.Errorf("%v: %v", m, err)
		}
	}
}

// Every number of a record has a bound, on one's own disk and, no higher, where another member's is fetched; or a
// reason why it needs none.
func TestEveryNumberOfARecordIsBounded(t *testing.T) {
	found := 0
	for _, r := range records {
		m := r.ProtoReflect()
		if Record(m.New().Interface()) != nil || Told(m.New().Interface()) != nil {
			t.Errorf("an empty %s is refused", m.Descriptor().Name())
		}
		for _, v := range Variants(m, register.MaxNumber+1, map[protoreflect.FullName]bool{}) {
			if err := Told(v.Message.Interface()); !errors.Is(err, register.ErrNumber) {
				t.Errorf("%s is taken above its bound: %v", v.Name, err)
			}
		}
		for _, v := range Variants(m, 2*register.MaxNumber+1, map[protoreflect.FullName]bool{}) {
			if found++; !errors.Is(Record(v.Message.Interface()), register.ErrNumber) {
				t.Errorf("%s is believed above its bound", v.Name)
			}
		}
	}
	if found < 80 {
		t.Errorf("%d numbers were found", found)
	}
}

// A kind of record that is new is found here.
func TestEveryRecordIsKnown(t *testing.T) {
	for _, file := range []protoreflect.FileDescriptor{
		peerv1.File_api_peer_v1_peer_proto, peerv1.File_api_peer_v1_raft_proto, peerv1.File_api_peer_v1_gus_proto,
		peerv1.File_api_peer_v1_rmwpaxos_proto, peerv1.File_api_peer_v1_fragment_proto,
	} {
		for i := range file.Messages().Len() {
			d := file.Messages().Get(i)
			name := string(d.Name())
			known := slices.ContainsFunc(records, func(r protoreflect.ProtoMessage) bool {
				return r.ProtoReflect().Descriptor() == d
			})
			// They have no counts.
			if strings.HasSuffix(name, "Record") && !known &&
				!slices.Contains([]string{"Record", "KeyRecord", "FragmentRecord"}, name) {
				t.Errorf("the bounds of a %s are not known", name)
			}
		}
	}
}

// Raised are copies of a message in each of which one number that it has, or could have, is n.
func Raised(m protoreflect.Message, n uint64) (all []Variant) {
	d := m.Descriptor()
	for i := range d.Fields().Len() {
		f := d.Fields().Get(i)
		name := string(d.Name()) + "." + string(f.Name())
		with := func(change func(protoreflect.Message)) protoreflect.Message {
			copied := proto.Clone(m.Interface()).ProtoReflect()
			change(copied)
			return copied
		}
		_, free := unbounded[name]
		switch {
		case free || f.IsMap():
		case f.Kind() == protoreflect.Uint64Kind && !f.IsList():
			all = append(all,
				Variant{name, with(func(c protoreflect.Message) { c.Set(f, protoreflect.ValueOfUint64(n)) })})
		case f.Kind() == protoreflect.MessageKind && f.IsList():
			for at := range min(1, m.Get(f).List().Len()) {
				for _, v := range Raised(m.Get(f).List().Get(at).Message(), n) {
					all = append(all, Variant{name + " " + v.Name, with(func(c protoreflect.Message) {
						c.Mutable(f).List().Set(at, protoreflect.ValueOfMessage(v.Message))
					})})
				}
			}
		case f.Kind() == protoreflect.MessageKind && m.Has(f):
			for _, v := range Raised(m.Get(f).Message(), n) {
				all = append(all,
					Variant{
						name + " " + v.Name,
						with(func(c protoreflect.Message) { c.Set(f, protoreflect.ValueOfMessage(v.Message)) }),
					})
			}
		}
	}
	return all
}
