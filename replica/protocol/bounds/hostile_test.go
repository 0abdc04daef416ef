package bounds_test

import (
	"fmt"
	"slices"
	"testing"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol/bounds"
	"github.com/georegister/georegister/replica/protocol/catalog"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// raised are copies of a message, each with one number that is the largest which is believed.
func raised(m *peerv1.Message) (all []bounds.Variant) {
	all = bounds.Raised(m.ProtoReflect(), register.MaxNumber)
	if table := m.GetRmwPaxos().GetTable(); len(table) > 0 {
		all = append(all, tables(m, table)...)
	}
	inner := &raftpb.Message{}
	if m.Kind != peerv1.Kind_RAFT || proto.Unmarshal(m.Raft, inner) != nil {
		return all
	}
	for _, v := range bounds.Raised(inner.ProtoReflect(), register.MaxNumber) {
		switch v.Name {
		case "Message.term", "Message.logTerm", "Message.index", "Message.commit", "Message.rejectHint", "Message.entries Entry.Term", "Message.entries Entry.Index":
			raw, err := proto.Marshal(v.Message.Interface())
			if err != nil {
				panic(err)
			}
			told := m.CloneVT()
			told.Raft = raw
			all = append(all, bounds.Variant{Name: "Raft's " + inner.GetType().String() + " " + v.Name, Message: told.ProtoReflect()})
		}
	}
	return all
}

// tables are copies of a message with other tables: cut, of no message, and with the largest numbers that are believed.
func tables(m *peerv1.Message, table []byte) (all []bounds.Variant) {
	with := func(name string, raw []byte) {
		told := m.CloneVT()
		told.RmwPaxos.Table = raw
		all = append(all, bounds.Variant{Name: "a table " + name, Message: told.ProtoReflect()})
	}
	with("that is cut", table[:len(table)-1])
	with("that is none", []byte("no table"))
	state := &peerv1.KeyState{}
	if err := state.UnmarshalVT(table); err != nil {
		panic(err)
	}
	for _, v := range bounds.Raised(state.ProtoReflect(), register.MaxNumber) {
		raw, err := proto.Marshal(v.Message.Interface())
		if err != nil {
			panic(err)
		}
		with("with "+v.Name, raw)
	}
	return all
}

// kindOf tells messages apart that say different things.
func kindOf(m *peerv1.Message) string {
	s := fmt.Sprint(m.Kind, m.Instance.GetStatus())
	m.ProtoReflect().Range(func(f protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
		if f.Kind() == protoreflect.MessageKind {
			s += " " + string(f.Name())
		}
		return true
	})
	return s
}

// scene is what happens in each try: member 3 is used, and then the others.
func (w *world) scene() {
	w.use(2, 0, 2)
	w.pass(30)
	w.use(1, 2)
}

// A member that tells of the largest number that is believed, in whatever message, costs no other one its disk, and
// stops none: not at once, and not when it starts again on what it has written.
func TestNoMemberCostsAnotherOneItsDisk(t *testing.T) {
	for _, name := range catalog.Names() {
		t.Run(name, func(t *testing.T) {
			for _, liar := range []view.MemberID{1, 2, 3} {
				tried := hostile(t, name, liar)
				t.Logf("member %d told %d lies", liar, tried)
				if tried < 5 {
					t.Errorf("member %d told %d lies", liar, tried)
				}
			}
		})
	}
}

// hostile has a member tell one lie after the other, each in a world of its own.
func hostile(t *testing.T, name string, liar view.MemberID) int {
	told := map[string]bool{}
	for {
		lie := ""
		w := found(t, name)
		w.heard = func(m sent) *peerv1.Message {
			if m.from != liar || m.to == liar || lie != "" {
				return m.message
			}
			for _, v := range raised(m.message) {
				if what := kindOf(m.message) + ": " + v.Name; !told[what] {
					told[what], lie = true, what
					return v.Message.Interface().(*peerv1.Message)
				}
			}
			return m.message
		}
		w.scene()
		if lie == "" {
			return len(told)
		}
		w.heard = nil
		for again := range 2 {
			for i := range w.members {
				if view.MemberID(i+1) == liar {
					continue
				}
				if w.faults[i] != nil {
					t.Fatalf("%s stops member %d, after %d starts: %v", lie, i+1, again+1, w.faults[i])
				}
				w.start(i, false)
			}
			w.pass(8)
			w.scene()
		}
		if slices.ContainsFunc(w.faults[:], func(err error) bool { return err != nil }) {
			t.Fatalf("%s: %v", lie, w.faults)
		}
	}
}

// A member whose tables are none, in all of its messages, stops nobody.
func TestWhatIsNoTableStopsNobody(t *testing.T) {
	for _, garbage := range []string{"no table", "\x1a\x01", "\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"} {
		w := found(t, "rmwpaxos")
		w.use(1)
		told := 0
		w.heard = func(m sent) *peerv1.Message {
			if m.from != 3 || len(m.message.GetRmwPaxos().GetTable()) == 0 {
				return m.message
			}
			told++
			lie := m.message.CloneVT()
			lie.RmwPaxos.Table = []byte(garbage)
			return lie
		}
		w.scene()
		w.use(0, 1)
		if told == 0 {
			t.Fatal("no table was told")
		}
		for i, fault := range w.faults[:2] {
			if fault != nil {
				t.Errorf("%q stops member %d: %v", garbage, i+1, fault)
			}
		}
	}
}
