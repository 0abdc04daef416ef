package rmwpaxos

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

var readK = register.Operation{Kind: register.Read, Key: "k"}

// step has a member do what it has to, and returns its messages; what completes is in done.
func (c *cluster) step(member view.MemberID) []protocol.Envelope {
	e := c.members[member-1].Ready()
	c.disks[member-1].Write(e.Persist)
	if e.Persist.Sequence != 0 {
		c.journals[member-1].Persisted(e.Persist.Sequence)
	}
	c.done = append(append(c.done, e.Complete...), e.CompleteAfterPersist...)
	return slices.Concat(e.Send, e.SendAfterPersist)
}

// deliver hands those messages to a member that are for it and of a kind.
func (c *cluster) deliver(from, to view.MemberID, kind peerv1.Kind, messages []protocol.Envelope) {
	for _, x := range messages {
		if x.To == to && x.Message.Kind == kind {
			c.members[to-1].Receive(from, x.Message)
		}
	}
}

// A read that finds votes of a minority asks again X times, as long as each time there is another one, before it helps.
// If nothing has moved since it asked, it helps at once.
func TestAReadAsksAgainBeforeItHelps(t *testing.T) {
	for _, tt := range []struct {
		option int
		moves  bool
		again  int
	}{
		{-1, true, 0}, {0, true, 2}, {1, true, 1}, {2, true, 2}, {5, true, 5}, {9, true, 9},
		{-1, false, 0}, {0, false, 1}, {1, false, 1}, {9, false, 1},
	} {
		c := newCluster(3)
		p, took := c.members[0], map[string]int{}
		p.options.ReadRetries = tt.option
		p.Config.Count = func(path string) { took[path]++ }
		vote := func(n uint64) { // of member 2, for what a proposer left that nobody hears of again
			if _, voted := c.members[1].vote([]byte("k"), round{Number: 2 * n, Proposer: 9, Attempt: n}, state{Versioned: register.Versioned{
				Carstamp: register.Carstamp{Timestamp: n, Writer: 9}, Value: fmt.Append(nil, n),
			}}); !voted {
				t.Fatalf("no vote in round %d", n)
			}
			c.step(2)
		}
		vote(1)
		p.Submit(protocol.Request{Handle: 1, Operation: readK})
		asked, last := 0, uint64(1)
		for helps := false; !helps; {
			messages := c.step(1)
			if asked > 20 || len(messages) == 0 {
				t.Fatalf("%+v: after it has asked %d times it sends %v", tt, asked, messages)
			}
			helps = messages[0].Message.Kind == peerv1.Kind_PAXOS_PREPARE
			if !helps {
				asked++
				c.deliver(1, 2, peerv1.Kind_PAXOS_READ, messages)
				answers := c.step(2)
				if tt.moves {
					last++
					vote(last) // after it has answered
				}
				c.deliver(2, 1, peerv1.Kind_PAXOS_STATE, answers)
				continue
			}
			for _, x := range messages {
				c.members[x.To-1].Receive(1, x.Message)
			}
		}
		if asked != 1+tt.again || took[pathReadRetry] != tt.again || took[pathReadHelps] != 1 {
			t.Errorf("%+v: it asked %d times; its paths are %v", tt, asked, took)
		}
		c.run()
		if len(c.done) != 1 || string(c.done[0].Result.Value) != fmt.Sprint(last) || c.done[0].Result.RoundTrips != asked+3 {
			t.Errorf("%+v: the read, of %d, ends with %+v, want %d round trips: three for a write-through", tt, last, c.done, asked+3)
		}
	}
}

// batches submits operations on a key at member 1 in one turn, and returns how many each batch had, as VOTE tells.
func (c *cluster) batches(t *testing.T, ops []register.Operation) (sizes []int) {
	t.Helper()
	c.done = nil
	number := uint64(0)
	c.sees = func(_ view.MemberID, x protocol.Envelope) {
		if x.To != 2 || x.Message.Kind != peerv1.Kind_PAXOS_VOTE {
			return
		}
		table := &peerv1.KeyState{}
		if err := table.UnmarshalVT(x.Message.RmwPaxos.Table); err != nil {
			t.Fatal(err)
		}
		if last := table.Executed[0]; last.Id.Number != number {
			number = last.Id.Number
			sizes = append(sizes, len(last.Answers))
		}
	}
	for i, op := range ops {
		c.members[0].Submit(protocol.Request{Handle: uint64(i), Operation: op})
	}
	c.run()
	c.sees = nil
	if len(c.done) != len(ops) {
		t.Fatalf("%d of %d operations ended", len(c.done), len(ops))
	}
	for i, d := range c.done {
		if d.Handle != uint64(i) || d.Result.Status != register.OK || d.Result.Carstamp.Timestamp != uint64(i)+1 {
			t.Fatalf("the %d-th to end is %d: %v at %v", i, d.Handle, d.Result.Status, d.Result.Carstamp)
		}
	}
	return sizes
}

// A batch has up to 64 commands, and no more once it has 1 MiB of values and arguments.
func TestBatchesAreBounded(t *testing.T) {
	writes := func(n, size int) (ops []register.Operation) {
		for range n {
			ops = append(ops, register.Operation{Kind: register.Write, Key: "k", Value: bytes.Repeat([]byte("v"), size)})
		}
		return ops
	}
	rmws := func(n, size int) (ops []register.Operation) {
		for _, op := range writes(n, size) {
			ops = append(ops, register.Operation{Kind: register.RMW, Key: "k", Call: register.Call{
				Function: register.GetAndSet, Args: [][]byte{op.Value}, MaxValueBytes: 4 << 20,
			}})
		}
		return ops
	}
	for _, tt := range []struct {
		name string
		ops  []register.Operation
		want []int
	}{
		{"one", writes(1, 10), []int{1}},
		{"64", writes(64, 10), []int{64}},
		{"65", writes(65, 10), []int{64, 1}},
		{"200 rmws", rmws(200, 10), []int{64, 64, 64, 8}},
		{"large writes", writes(10, 300<<10), []int{4, 4, 2}},
		{"large rmws", rmws(5, 512<<10), []int{2, 2, 1}},
		{"of more than a batch", append(writes(2, 2<<20), writes(3, 10)...), []int{1, 1, 3}},
	} {
		if got := newCluster(3).batches(t, tt.ops); !slices.Equal(got, tt.want) {
			t.Errorf("%s: batches of %v, want %v", tt.name, got, tt.want)
		}
	}
}

// Reads of a key that come in one turn ask once.
func TestReadsOfATurnAskTogether(t *testing.T) {
	c := newCluster(3)
	c.submit(2, write("k", "v"))
	c.done, c.messages = nil, 0
	for i := range 11 {
		op := readK
		if i == 5 {
			op.Key = "another"
		}
		c.members[0].Submit(protocol.Request{Handle: uint64(i), Operation: op})
	}
	c.run()
	if c.messages != 2*2 {
		t.Errorf("10 reads of a key and one of another sent %d messages, want a question and an answer for each key", c.messages)
	}
	for _, d := range c.done {
		if want := map[bool]string{true: "", false: "v"}[d.Handle == 5]; d.Result.Status != register.OK || string(d.Result.Value) != want || d.Result.RoundTrips != 1 {
			t.Errorf("read %d ends with %+v", d.Handle, d.Result)
		}
	}
	if len(c.done) != 11 || c.members[0].Pending() != 0 {
		t.Errorf("%d of 11 ended, %d are pending", len(c.done), c.members[0].Pending())
	}
}

// What a read has asked may be answered by what was there before the next one began: that one asks anew.
func TestAReadThatHasLeftIsNotJoined(t *testing.T) {
	c := newCluster(3)
	c.members[0].Submit(protocol.Request{Handle: 1, Operation: readK})
	c.deliver(1, 2, peerv1.Kind_PAXOS_READ, c.step(1))
	old := c.step(2)
	if r := c.submit(3, write("k", "new")); r.Status != register.OK {
		t.Fatalf("the write ends with %+v", r)
	}
	c.done = nil
	c.members[0].Submit(protocol.Request{Handle: 2, Operation: readK})
	asks := c.step(1)
	c.deliver(2, 1, peerv1.Kind_PAXOS_STATE, old)
	c.step(1)
	if len(c.done) != 1 || c.done[0].Handle != 1 || c.done[0].Result.Value.Present() {
		t.Fatalf("the answer from before the write ends %+v", c.done)
	}
	c.done = nil
	for _, x := range asks {
		c.members[x.To-1].Receive(1, x.Message)
	}
	c.run()
	if len(c.done) != 1 || c.done[0].Handle != 2 || string(c.done[0].Result.Value) != "new" {
		t.Errorf("the read after the write ends with %+v", c.done)
	}
}

// A proposal that is chosen ends the reads that began before it was sent, and no later one: others may have proposed
// since.
func TestAProposalEndsTheReadsBeforeIt(t *testing.T) {
	for _, before := range []bool{true, false} {
		c := newCluster(3)
		c.submit(1, write("k", "first"))
		c.done = nil
		p := c.members[0]
		var asks []protocol.Envelope
		if before {
			p.Submit(protocol.Request{Handle: 1, Operation: readK})
			c.step(1) // its question is lost
		}
		p.Submit(protocol.Request{Handle: 2, Operation: write("k", "second")})
		votes := c.step(1)
		c.deliver(1, 2, peerv1.Kind_PAXOS_VOTE, votes)
		voted := c.step(2)
		if !before {
			p.Submit(protocol.Request{Handle: 1, Operation: readK})
			asks = c.step(1)
		}
		c.deliver(2, 1, peerv1.Kind_PAXOS_VOTED, voted)
		c.step(1)
		if len(c.done) != map[bool]int{true: 2, false: 1}[before] || c.done[len(c.done)-1].Handle != 2 {
			t.Errorf("the read began first: %v; with the write end %+v", before, c.done)
		}
		for _, x := range asks {
			c.members[x.To-1].Receive(1, x.Message)
		}
		c.run()
		at := slices.IndexFunc(c.done, func(d protocol.Completion) bool { return d.Handle == 1 })
		if at < 0 || string(c.done[at].Result.Value) != "second" {
			t.Errorf("the read began first: %v; it ends with %+v", before, c.done)
		}
	}
}
