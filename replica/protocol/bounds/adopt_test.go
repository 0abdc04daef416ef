package bounds_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/bounds"
	"github.com/georegister/georegister/replica/protocol/catalog"
	"github.com/georegister/georegister/replica/protocol/member"
	"github.com/georegister/georegister/replica/protocol/protocoltest"
	"github.com/georegister/georegister/replica/protocol/quorum"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// fetches are the protocols with state transfers of package member.
func fetches(t testing.TB) (names []string) {
	for _, name := range catalog.Names() {
		entry, err := catalog.Find(name)
		if err != nil {
			t.Fatal(err)
		}
		if entry.Factory != nil {
			names = append(names, name)
		}
	}
	return names
}

// newcomer is the protocol of a member that fetches another one's state.
func newcomer(t testing.TB, name string) member.Inner {
	entry, err := catalog.Find(name)
	if err != nil {
		t.Fatal(err)
	}
	v := view.View{Cluster: "test", Epoch: 1, Members: []view.Member{{ID: 1}, {ID: 2}, {ID: 3}}}
	inner := entry.Factory(protocol.Config{
		Self: 1, View: v, Boot: 1, Functions: register.NewRegistry(), Limits: register.DefaultLimits(),
		Retry: 1, Suspect: 4, Nearest: []view.MemberID{2, 3},
	}, protocol.NewJournal(protocoltest.Disk{}), quorum.FirstDisks(v))
	inner.Ready()
	return inner
}

// Bytes that are no record of the protocol are refused with an error in a state transfer. They stop nobody, and nothing
// of them stays.
func TestWhatIsNoRecordIsRefused(t *testing.T) {
	for _, name := range fetches(t) {
		w := found(t, name)
		w.use(0, 1, 2)
		foreign := [][]byte{nil, []byte("!"), []byte("!k"), {0}, {0xff, 0xff}, []byte("zk")}
		for prefix := range recordsOf(name) {
			for _, garbage := range [][]byte{
				{0xff}, {0x0a}, {0x08}, {0x0f}, bytes.Repeat([]byte{0xff}, 64), []byte("POST / HTTP/1.1\r\n"),
			} {
				own := prefix == "t" || prefix == "h" // where a log begins, and votes, are nobody else's
				check(t, name, []byte(prefix+"k"), garbage, !own)
			}
		}
		for _, key := range foreign {
			check(t, name, key, nil, true)
			check(t, name, key, []byte("value"), true)
		}
		// A whole record is taken, whoever has it; whatever part of it is, stops nobody.
		for key, raw := range w.disks[1] {
			if key[0] == 'm' {
				continue
			}
			if err := newcomer(t, name).Adopt([]byte(key), raw); err != nil {
				t.Errorf("%s: the record %q is refused: %v", name, key, err)
			}
			for i := range raw {
				inner := newcomer(t, name)
				if err := inner.Adopt([]byte(key), raw[:i]); err != nil && inner.Ready().Persist.Sequence != 0 {
					t.Errorf("%s: of %q, which is refused, something stays", name, key)
				}
				if fault := inner.Ready().Fault; fault != nil {
					t.Errorf("%s: %d bytes of %q stop who fetches: %v", name, i, key, fault)
				}
			}
		}
	}
}

func check(t *testing.T, name string, key, value []byte, refused bool) {
	t.Helper()
	inner := newcomer(t, name)
	err := inner.Adopt(key, value)
	if refused && err == nil {
		t.Errorf("%s: %q is taken for the record %q", name, value, key)
	}
	if e := inner.Ready(); e.Fault != nil || refused && e.Persist.Sequence != 0 {
		t.Errorf("%s: %q, given for the record %q, has left %v and stops who fetches: %v", name, value,
			key, e.Persist, e.Fault)
	}
}

// What a member of CURP is sent for its state is of that state, or refused with all that comes with it.
func TestCURPTakesNoForeignRecords(t *testing.T) {
	register := func(timestamp uint64) []byte {
		raw, err := (&peerv1.RegisterRecord{Timestamp: timestamp, Present: true}).MarshalVT()
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	good := &peerv1.Record{Key: []byte("rk"), Value: register(1)}
	for _, bad := range []*peerv1.Record{
		{}, {Key: []byte("P")}, {Key: []byte("C"), Value: []byte{1}}, {Key: []byte("K")},
		{Key: []byte("L\x00\x00\x00\x00\x00\x00\x00\x01")}, {Key: []byte("zk")},
		{Key: []byte("rk"), Value: []byte{0xff}}, {Key: []byte("rk"), Value: register(far)}, {Key: []byte("s")},
		{Key: []byte("d\x00\x00\x00\x00\x00\x00\x00\x01")},
		{Key: []byte("h"), Value: []byte{0xff}}, {Key: []byte("h1")},
	} {
		for name, curp := range map[string]*peerv1.Curp{
			"an entry": {
				Last: 9, Entries: []*peerv1.LogEntry{{Term: 1, Index: 3, Records: []*peerv1.Record{good, bad}}},
			},
			"a deletion": {Last: 9, Entries: []*peerv1.LogEntry{{Term: 1, Index: 3, Deleted: [][]byte{bad.Key}}}},
			"a page":     {Records: []*peerv1.Record{good, bad}, Done: true},
		} {
			if name == "a deletion" && slices.Contains([]string{"rk", "h"}, string(bad.Key)) {
				continue
			}
			t.Run(fmt.Sprintf("%s/%q=%q", name, bad.Key, bad.Value), func(t *testing.T) {
				w := found(t, "curp")
				kind := peerv1.Kind_SYNC
				if name == "a page" {
					kind = peerv1.Kind_COPY_PAGE
				}
				var last *peerv1.Message
				w.heard = func(m sent) *peerv1.Message {
					if m.to == 2 && m.message.Curp != nil {
						last = m.message
					}
					return m.message
				}
				w.use(0)
				m := last.CloneVT()
				m.Kind, curp.Term, curp.View = kind, m.Curp.Term, m.Curp.View
				m.Curp = curp
				before := copyOf(w.disks[1])
				w.refused = nil
				w.deliver(sent{1, 2, m})
				if len(w.refused) != 1 || w.refused[0].From != 1 {
					t.Errorf("refused: %v", w.refused)
				}
				if w.faults[1] != nil {
					t.Errorf("it stops who is told: %v", w.faults[1])
				}
				for key, raw := range w.disks[1] {
					if !bytes.Equal(before[key], raw) && key != "C" {
						t.Errorf("%q is now %q", key, raw)
					}
				}
			})
		}
	}
}

// A lease runs from a time that its holder's clock has shown, and as long as leases are, whatever an answer says.
func TestNoLeaseBeginsInTheFuture(t *testing.T) {
	const far = 1 << 62
	for name, test := range map[string]struct {
		holder int
		lie    func(m *peerv1.Message)
	}{
		"a master's, by a backup": {0, func(m *peerv1.Message) {
			if m.Kind == peerv1.Kind_SYNC_REPLY {
				m.Curp.Asked = far
			}
		}},
		"a master's, for long": {0, func(m *peerv1.Message) {
			if m.Kind == peerv1.Kind_SYNC_REPLY {
				m.Curp.Granted = far
			}
		}},
		"a backup's, of stale reads": {1, func(m *peerv1.Message) {
			if m.Kind == peerv1.Kind_SYNC {
				m.Curp.Wanted, m.Curp.Delegated, m.Curp.Nonce = far, 1, 12 // of the backup's process
			}
		}},
		"a backup's, of what is not behind": {1, func(m *peerv1.Message) {
			if m.Kind == peerv1.Kind_SYNC {
				m.Curp.Wanted, m.Curp.Delegated, m.Curp.Behind, m.Curp.Nonce = 1, 1, -far, 12
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := found(t, "curp")
			w.heard = func(m sent) *peerv1.Message {
				told := m.message.CloneVT()
				if told.Curp != nil {
					test.lie(told)
				}
				return told
			}
			w.use(0, 1)
			w.pass(4)
			w.heard = func(sent) *peerv1.Message { return nil } // all others may go on without it
			w.pass(40)
			r := w.do(test.holder, register.Operation{Kind: register.Read, Key: "k", Stale: true})
			if r.Status == register.OK {
				t.Errorf("ten seconds after it has heard anything, it answers %v", r)
			}
			if w.faults[test.holder] != nil {
				t.Error(w.faults[test.holder])
			}
		})
	}
}

// FuzzReceive: whatever a member of any protocol says, nobody stops: not at once, and not on what is written of it.
func FuzzReceive(f *testing.F) {
	names := catalog.Names()
	for i, name := range names {
		w := found(f, name)
		seeds := map[string]bool{}
		w.heard = func(m sent) *peerv1.Message {
			if kind := kindOf(m.message); !seeds[kind] && m.to == 1 {
				seeds[kind] = true
				raw, err := m.message.MarshalVT()
				if err != nil {
					f.Fatal(err)
				}
				f.Add(uint8(i), raw)
			}
			return m.message
		}
		w.scene()
	}
	f.Fuzz(func(t *testing.T, which uint8, raw []byte) {
		m := &peerv1.Message{}
		if m.UnmarshalVT(raw) != nil || m.Kind == peerv1.Kind_WITNESS || len(m.Key) > 1<<16 {
			return
		}
		w := found(t, names[int(which)%len(names)])
		w.use(2, 1)
		m.Epoch = 1
		m.Known = nil // another disk in the member's place does stop it
		w.deliver(sent{3, 1, m})
		w.settle()
		w.use(0, 1)
		if w.faults[0] != nil {
			t.Fatalf("it stops: %v", w.faults[0])
		}
		w.start(0, false)
		w.pass(8)
		w.use(0)
		if w.faults[0] != nil {
			t.Fatalf("it does not start again: %v", w.faults[0])
		}
	})
}

// FuzzAdopt: no record that another member is said to have stops who fetches, and none that is refused leaves anything.
func FuzzAdopt(f *testing.F) {
	names := fetches(f)
	for i, name := range names {
		w := found(f, name)
		w.use(0, 1, 2)
		for key, raw := range w.disks[0] {
			f.Add(uint8(i), []byte(key), raw)
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, key, raw []byte) {
		if len(key) > 0 && key[0] == 'm' {
			return // a member's own are not handed over
		}
		inner := newcomer(t, names[int(which)%len(names)])
		err := inner.Adopt(bytes.Clone(key), bytes.Clone(raw))
		e := inner.Ready()
		if e.Fault != nil {
			t.Fatalf("it stops who fetches: %v", e.Fault)
		}
		if err != nil && e.Persist.Sequence != 0 {
			t.Fatalf("it is refused, and %v stays", e.Persist)
		}
	})
}

// FuzzDisk: no record makes a member fail other than by an error, when it starts on it and later.
func FuzzDisk(f *testing.F) {
	names := catalog.Names()
	for i, name := range names {
		w := found(f, name)
		w.use(0, 1, 2)
		for key, raw := range w.disks[0] {
			f.Add(uint8(i), []byte(key), raw)
		}
		for prefix, record := range recordsOf(name) {
			for _, v := range bounds.Variants(record.ProtoReflect(), 5, map[protoreflect.FullName]bool{}) {
				raw, err := proto.Marshal(v.Message.Interface())
				if err != nil {
					f.Fatal(err)
				}
				f.Add(uint8(i), []byte(prefix), raw)
			}
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, key, raw []byte) {
		if len(key) == 0 {
			return // no record has that key
		}
		w := found(t, names[int(which)%len(names)])
		w.use(1)
		w.disks[0][string(key)] = raw
		w.start(0, false)
		w.pass(8)
		w.use(0, 1)
		for i, fault := range w.faults[1:] {
			if errors.Is(fault, register.ErrNumber) {
				t.Fatalf("it costs member %d its disk: %v", i+2, fault)
			}
		}
	})
}
