package rmwpaxos

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/georegister/georegister/replica/capability"
	"github.com/georegister/georegister/replica/register"
)

func newClusterAtLeastOnce(n int) *cluster {
	c := newCluster(n)
	for _, p := range c.members {
		p.options.AtLeastOnce = true
	}
	return c
}

func setNewest(key string, version int, id register.ID) register.Operation {
	return register.Operation{Kind: register.RMW, Key: key, ID: id, Call: register.Call{
		Function: register.SetNewest, Args: [][]byte{[]byte(strconv.Itoa(version)), []byte("0123456789abcdef")},
		MaxValueBytes: 1 << 20,
	}}
}

// What may be applied only once is refused before anything is sent, and the refusal says what to use.
func TestAtLeastOnceRefusesWhatIsNotIdempotent(t *testing.T) {
	c := newClusterAtLeastOnce(3)
	row, err := capability.Find("RMWPaxosAtLeastOnce")
	if err != nil {
		t.Fatal(err)
	}
	for _, op := range []register.Operation{write("k", "v"), {Kind: register.Write, Key: "k"}} {
		if r := c.submit(1, op); r.Status != register.Unsupported ||
			r.Message != row.Operation(register.Write).Refusal {
			t.Errorf("a write is answered by %+v, want the refusal of the table of protocols", r)
		}
	}
	for _, name := range register.NewRegistry().Names() {
		op := register.Operation{Kind: register.RMW, Key: "k", Call: register.Call{Function: name, MaxValueBytes: 1000}}
		argument := []byte("1")
		if name == register.Multi {
			argument = nil // no guard, and no calls
		}
		for register.NewRegistry().Check(op.Call) != nil {
			op.Call.Args = append(op.Call.Args, argument)
		}
		key := name
		op.Key = key
		r := c.submit(1, op)
		if register.NewRegistry().Idempotent(name) {
			if r.Status != register.OK {
				t.Errorf("%s is answered by %+v", name, r)
			}
			continue
		}
		for _, want := range []string{name, register.SetNewest, register.AddMember, "RMWPaxos"} {
			if r.Status != register.Unsupported || !strings.Contains(r.Message, want) {
				t.Errorf("%s is answered by %+v; want a refusal with %q in it", name, r, want)
			}
		}
		if read := c.submit(2, register.Operation{Kind: register.Read, Key: key}); read.Value.Present() {
			t.Errorf("%s was refused, and the value is %q", name, read.Value)
		}
	}
}

// What a state holds beside the value: the sessions of clients and the batches of members, or nothing.
func TestWhatAtLeastOnceSaves(t *testing.T) {
	const sessions = 1000
	size := map[bool]int{}
	for _, least := range []bool{false, true} {
		c := newCluster(3)
		if least {
			c = newClusterAtLeastOnce(3)
		}
		for i := range sessions {
			id := register.ID{
				Session: uint64(i+1) << 40, Number: 1, FirstIncomplete: 1, IssuedAt: 1_700_000_000_000 + int64(i),
			}
			r := c.submit(i%3+1, setNewest("k", i+1, id))
			if r.Status != register.OK {
				t.Fatalf("update %d is answered by %+v", i, r)
			}
		}
		a := c.members[0].Load([]byte("k"))
		if string(a.Value) != fmt.Sprintf("%d 0123456789abcdef", sessions) {
			t.Errorf("the value is %q", a.Value)
		}
		encoded, _ := c.disks[0].Get([]byte("pk"))
		size[least] = len(encoded) - len(a.Value)
		if least && len(a.Table) != 0 {
			t.Errorf("a table of %d bytes", len(a.Table))
		}
	}
	t.Logf("bytes on disk beside the value: %d, and %d at least once", size[false], size[true])
	if size[true] > 100 || size[false] < 30*sessions {
		t.Errorf("%d bytes at least once, otherwise %d", size[true], size[false])
	}
}

// An update that changes nothing is answered after phase 1, and a batch that was applied already is one.
func TestAtLeastOnceAppliesAgain(t *testing.T) {
	c := newClusterAtLeastOnce(3)
	if r := c.submit(1, setNewest("k", 2, register.ID{})); r.RoundTrips != 2 {
		t.Errorf("the first update: %+v, want a round trip for each phase", r)
	}
	if r := c.submit(1, setNewest("k", 3, register.ID{})); r.RoundTrips != 1 || !r.Fast {
		t.Errorf("the next one: %+v, want one round trip", r)
	}
	before := c.members[0].Load([]byte("k")).Accepted
	if r := c.submit(2, setNewest("k", 3, register.ID{})); r.RoundTrips != 1 || r.Status != register.OK {
		t.Errorf("the same one of another member: %+v, want phase 1 alone", r)
	}
	if after := c.members[0].Load([]byte("k")).Accepted; after != before {
		t.Errorf("what changes nothing was voted for: %v after %v", after, before)
	}
}

// BenchmarkUpdatesOfManySessions is what an update costs at three members, of a key that 1000 sessions take turns on.
func BenchmarkUpdatesOfManySessions(b *testing.B) {
	for _, least := range []bool{false, true} {
		b.Run(map[bool]string{false: "exactly-once", true: "at-least-once"}[least], func(b *testing.B) {
			c := newCluster(3)
			if least {
				c = newClusterAtLeastOnce(3)
			}
			i := 0
			update := func() {
				i++
				session := uint64(i%1000) + 1
				number := uint64(i/1000) + 1
				c.submit(1,
					setNewest("k", i,
						register.ID{
							Session: session << 40, Number: number, FirstIncomplete: number, IssuedAt: int64(i),
						}))
			}
			for range 1000 {
				update()
			}
			b.ReportAllocs()
			for b.Loop() {
				update()
			}
		})
	}
}
