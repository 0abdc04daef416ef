package bounds

import (
	"errors"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/register"
)

// variantsOfTables are tables in each of which one number is n.
func variantsOfTables(t testing.TB, n uint64) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	for _, v := range Variants((&peerv1.KeyState{}).ProtoReflect(), n, map[protoreflect.FullName]bool{}) {
		raw, err := proto.Marshal(v.Message.Interface())
		if err != nil {
			t.Fatal(err)
		}
		all[v.Name] = raw
	}
	return all
}

func TestEveryNumberOfATableIsBounded(t *testing.T) {
	above := variantsOfTables(t, register.MaxNumber+1)
	if len(above) < 8 {
		t.Fatalf("%d numbers", len(above))
	}
	for name, raw := range above {
		if err := Table(raw); !errors.Is(err, register.ErrNumber) {
			t.Errorf("%s: %v", name, err)
		}
		if err := Message(&peerv1.Message{RmwPaxos: &peerv1.RMWPaxos{Table: raw}}); !errors.Is(err,
			register.ErrNumber) {
			t.Errorf("%s, in a message: %v", name, err)
		}
	}
	for name, raw := range variantsOfTables(t, register.MaxNumber) {
		if err := Table(raw); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzTable: what is taken for a table can be decoded, and has no number above its bound.
func FuzzTable(f *testing.F) {
	f.Add([]byte("no table"))
	for _, n := range []uint64{1, register.MaxNumber, register.MaxNumber + 1} {
		for _, raw := range variantsOfTables(f, n) {
			f.Add(raw)
			f.Add(raw[:len(raw)-1])
		}
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		checked := Table(raw)
		table := &peerv1.KeyState{}
		err := table.UnmarshalVT(raw)
		if err == nil {
			c := told()
			c.state(table)
			err = c.report("table")
		}
		if err != nil && checked == nil {
			t.Fatalf("it is a table, and %v", err)
		}
	})
}
