package bounds_test

import (
	"testing"
	"time"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/capability"
	"github.com/georegister/georegister/replica/protocol/catalog"
	"github.com/georegister/georegister/replica/protocol/digest"
	"github.com/georegister/georegister/replica/protocol/protocoltest"
	"github.com/georegister/georegister/replica/register"
)

// digests are those of the members of a world that begins at a time, one after each step of some operations.
func digests(t *testing.T, name string, begin time.Duration) (all []digest.State) {
	w, digester := foundAt(t, name, begin), digest.New()
	note := func() {
		for _, m := range w.members {
			all = append(all, digester.Of(m, w.now))
		}
	}
	row, err := capability.Find(name)
	if err != nil {
		t.Fatal(err)
	}
	note()
	for i := range 3 {
		for _, op := range []register.Operation{
			{Kind: register.Write, Key: "k", Value: register.Value{byte(i)}},
			{
				Kind: register.RMW, Key: "n",
				Call: register.Call{Function: register.Add, Args: [][]byte{[]byte("1")}, MaxValueBytes: 100},
			},
			{Kind: register.Read, Key: "k"},
		} {
			if row.Operation(op.Kind).Refusal == "" {
				w.heard = func(m sent) *peerv1.Message { // what is under way is part of the state, too
					note()
					return m.message
				}
				w.do(i, op)
				note()
			}
		}
		w.pass(3)
		note()
	}
	w.disks[2] = protocoltest.Disk{} // it is lost, and the member joins again
	w.start(2, false)
	w.pass(8)
	note()
	return all
}

// A state is the same at any hour, and operations change it.
func TestADigestHasNoAbsoluteTime(t *testing.T) {
	for _, name := range catalog.Names() {
		t.Run(name, func(t *testing.T) {
			early, late := digests(t, name, time.Second), digests(t, name, 1000*time.Hour)
			if len(early) != len(late) {
				t.Fatalf("%d steps, and %d at another hour", len(early), len(late))
			}
			for i := range early {
				if early[i] != late[i] {
					t.Fatalf("step %d, member %d: the state depends on the hour", i/3, i%3+1)
				}
			}
			different := map[digest.State]bool{}
			for _, d := range early {
				different[d] = true
			}
			t.Logf("%d states, %d different", len(early), len(different))
			if len(different) < len(early)/4 {
				t.Errorf("%d states of %d differ", len(different), len(early))
			}
		})
	}
}
