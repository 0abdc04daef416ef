package epaxos

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol/protocoltest"
	"github.com/georegister/georegister/replica/register"
)

func writeOf(key string, handle uint64) register.Operation {
	return register.Operation{Kind: register.Write, Key: key, Value: register.Value(fmt.Sprint(handle))}
}

// What comes while all lanes are in use waits, and goes together into the first one that is free: reads or others.
func TestWhatWaitsForALaneGoesTogether(t *testing.T) {
	c := newCluster(3)
	var asked [][]string // what is in each instance that member 1 has proposed
	took := func() {
		for _, p := range c.packets {
			if p.from != 1 || p.message.Kind != peerv1.Kind_PRE_ACCEPT {
				continue
			}
			var commands []string
			for _, command := range p.message.Instance.Commands {
				commands = append(commands, command.Kind.String()[:1]+string(command.Value))
			}
			if !slices.ContainsFunc(asked, func(other []string) bool { return slices.Equal(other, commands) }) {
				asked = append(asked, commands)
			}
		}
	}
	for handle := range uint64(14) {
		op := writeOf("k", handle+1)
		if handle+1 == 12 {
			op = register.Operation{Kind: register.Read, Key: "k"}
		}
		c.submit(0, handle+1, op)
		took()
	}
	c.submit(0, 15, writeOf("l", 15)) // another key has lanes of its own
	took()
	want := [][]string{{"W1"}, {"W2"}, {"W3"}, {"W4"}, {"W5"}, {"W6"}, {"W7"}, {"W8"}, {"W15"}}
	if !slices.EqualFunc(asked, want, slices.Equal) || c.members[0].Pending() != lanes+1 {
		t.Fatalf("of 14 operations on a key %d instances are unfinished, with one of another: %v",
			c.members[0].Pending(), asked)
	}
	for _, next := range [][]string{{"W9", "W10", "W11"}, {"R"}, {"W13", "W14"}} {
		// The oldest one is answered, and so it is finished here. What it tells others is on its way.
		done := len(c.answers)
		for _, kind := range []peerv1.Kind{peerv1.Kind_PRE_ACCEPT, peerv1.Kind_PRE_ACCEPT_OK} {
			left := 1
			c.deliver(func(p packet) bool {
				wanted := left > 0 && p.message.Kind == kind
				if wanted {
					left--
				}
				return wanted
			})
		}
		took()
		want = append(want, next)
		if len(c.answers) != done+1 || !slices.EqualFunc(asked, want, slices.Equal) ||
			c.members[0].Pending() != lanes+1 {
			t.Fatalf("%d operations have ended, and %d instances are unfinished: %v, want %v", len(c.answers),
				c.members[0].Pending(), asked, want)
		}
	}
	c.deliver(everything)
	if len(c.answers) != 15 || string(c.answers[12].Value) != "11" {
		t.Errorf("%d of 15 operations ended; the read returned %q", len(c.answers), c.answers[12].Value)
	}
}

// unexecuted is the member that proposed the instance in a slot; 0: the state of its key has it.
func unexecuted(t *testing.T, disk protocoltest.Disk, slot string) uint32 {
	t.Helper()
	var m peerv1.Message
	var state peerv1.KeyState
	if err := errors.Join(m.UnmarshalVT(disk[slot]), state.UnmarshalVT(disk["s"+string(m.Key)])); err != nil {
		t.Fatal(err)
	}
	id := m.Instance.Id
	if slices.ContainsFunc(state.Executed, func(e *peerv1.Executed) bool {
		return e.Id.Writer == id.Writer && e.Id.Number >= id.Number
	}) {
		return 0
	}
	return register.Writer(id.Writer).Member()
}

// However many operations are submitted, a coordinator has no more than 8 instances of a key that it has not executed:
// the graph of a hot key does not grow.
func TestTheGraphOfAHotKeyIsBounded(t *testing.T) {
	const operations = 600
	for _, n := range []int{3, 5} {
		c := newCluster(n)
		draw := rand.New(rand.NewPCG(uint64(n), 1))
		most := 0
		count := func(i int) {
			own := 0
			for key := range c.disks[i] { // order is irrelevant: a count
				if key[0] == 'i' && unexecuted(t, c.disks[i], key) == uint32(i+1) {
					own++
				}
			}
			if most = max(most, own); own > 8 {
				t.Fatalf("of %d members, member %d has %d instances of the key in progress", n, i+1, own)
			}
		}
		for handle := range uint64(operations) {
			i := draw.IntN(n)
			op := writeOf("k", handle+1)
			if draw.IntN(3) == 0 {
				op = register.Operation{Kind: register.Read, Key: "k"}
			}
			c.submit(i, handle+1, op)
			count(i)
			for draw.IntN(3) == 0 && len(c.packets) > 0 { // much slower than operations come
				at := draw.IntN(len(c.packets))
				p := c.packets[at]
				c.packets = slices.Delete(c.packets, at, at+1)
				c.members[p.to-1].Receive(p.from, p.message)
				c.ready(int(p.to - 1))
				count(int(p.to - 1))
			}
		}
		c.deliver(func(packet) bool {
			for i := range n {
				count(i)
			}
			return true
		})
		if len(c.answers) != operations || most != 8 {
			t.Errorf("of %d members: %d of %d operations ended, and at most %d instances of a coordinator were in "+
				"progress", n, len(c.answers), operations, most)
		}
	}
}

// An instance has up to 64 commands, and no more once it has 1 MiB of values and arguments.
func TestInstancesAreBounded(t *testing.T) {
	for _, tt := range []struct {
		name    string
		waiting int
		size    int
		rmws    bool
		want    []int // commands of the instances after the first 8
	}{
		{"64", 64, 10, false, []int{64}},
		{"200", 200, 10, false, []int{64, 64, 64, 8}},
		{"200 rmws", 200, 10, true, []int{64, 64, 64, 8}},
		{"large writes", 10, 300 << 10, false, []int{4, 4, 2}},
		{"large rmws", 5, 512 << 10, true, []int{2, 2, 1}},
		{"of more than an instance", 3, 2 << 20, false, []int{1, 1, 1}},
	} {
		c := newCluster(3)
		for handle := range uint64(lanes) {
			c.submit(0, handle+1, writeOf("k", handle+1))
		}
		for i := range tt.waiting {
			op := writeOf("k", 0)
			op.Value = make(register.Value, tt.size)
			if tt.rmws {
				op = register.Operation{Kind: register.RMW, Key: "k", Call: register.Call{
					Function: register.GetAndSet, Args: [][]byte{op.Value}, MaxValueBytes: 4 << 20,
				}}
			}
			c.submit(0, uint64(lanes+1+i), op)
		}
		var sizes []int
		c.deliver(func(p packet) bool {
			// each is looked at once: the first that is there is delivered
			if p.message.Kind == peerv1.Kind_PRE_ACCEPT {
				sizes = append(sizes, len(p.message.Instance.Commands))
			}
			return true
		})
		if len(c.answers) != lanes+tt.waiting || !slices.Equal(sizes[lanes:], tt.want) {
			t.Errorf("%s: %d of %d operations ended, in instances of %v, want %v", tt.name, len(c.answers),
				lanes+tt.waiting, sizes[lanes:], tt.want)
		}
	}
}
