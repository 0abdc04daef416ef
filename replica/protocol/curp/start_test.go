package curp_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/curp"
	"github.com/georegister/georegister/replica/protocol/protocoltest"
	"github.com/georegister/georegister/replica/register"
)

// countedDisk counts the registers that are read.
type countedDisk struct {
	protocoltest.Disk
	registers int
}

func (d *countedDisk) count(key []byte) {
	if key[0] == 'r' {
		d.registers++
	}
}

func (d *countedDisk) Get(key []byte) ([]byte, bool) {
	d.count(key)
	return d.Disk.Get(key)
}

func (d *countedDisk) Scan(after []byte, visit func(key, value []byte) bool) {
	d.Disk.Scan(after, func(key, value []byte) bool {
		d.count(key)
		return visit(key, value)
	})
}

// A master that begins reads the sessions, which are on both sides of the registers, and not these: there may be
// millions, and nobody is served meanwhile. It sees the first one, where the answers of sessions end.
func TestAMasterBeginsWithoutTheRegisters(t *testing.T) {
	const keys = 100
	add := register.Operation{
		Kind: register.RMW, Key: "\xff\xff", Call: register.Call{Function: register.Add, Args: [][]byte{[]byte("1")}},
		ID: register.ID{Session: 1<<64 - 1, Number: 1, FirstIncomplete: 1, IssuedAt: 1000},
	}
	w := newWorld(t, 1, 1, 0, 0, protocol.Sync{})
	var first []protocol.Completion
	w.completed = func(_ *node, c protocol.Completion) { first = append(first, c) }
	n := w.nodes[0]
	w.run(time.Second)
	for i := range keys {
		n.turn(func() {
			n.p.Submit(protocol.Request{Handle: uint64(i), Operation: register.Operation{
				Kind: register.Write, Key: fmt.Sprint("k", i), Value: register.Value("v"),
			}})
		})
	}
	n.turn(func() { n.p.Submit(protocol.Request{Handle: keys, Operation: add}) })
	w.run(time.Second)
	failed := func(c protocol.Completion) bool { return c.Result.Status != register.OK }
	if len(first) != keys+1 || slices.ContainsFunc(first, failed) {
		t.Fatalf("%d of %d operations are answered: %+v", len(first), keys+1, first)
	}
	n.crash()

	disk := &countedDisk{Disk: n.disk}
	journal := protocol.NewJournal(disk)
	started, err := curp.Start(protocol.Config{
		Self: 1, View: w.view, Boot: 2, Functions: register.NewRegistry(),
		Limits: register.DefaultLimits(), Retry: retry,
		Suspect: 5 * retry, Seed: 1, Nonce: 2, Bootstrap: true, Count: func(string) {}, Undoubted: true,
	}, journal)
	if err != nil {
		t.Fatal(err)
	}
	p := started.(*curp.Protocol)
	p.Tick(protocol.Instant(time.Hour))
	if !p.PartitionStatus().Serving {
		t.Fatal("the master does not serve yet: what it has read says nothing")
	}
	if disk.registers > 1 {
		t.Errorf("a master that begins has read %d registers of %d", disk.registers, keys+1)
	}

	p.Submit(protocol.Request{Handle: 1, Operation: add})
	e := p.Ready()
	for _, c := range slices.Concat(e.Complete, e.CompleteAfterPersist) {
		again, before := c.Result, first[keys].Result
		if string(again.Value) != string(before.Value) || again.Status != before.Status {
			t.Errorf("the same request is answered %s %q, and was %s %q",
				again.Status, again.Value, before.Status, before.Value)
		}
	}
	if len(e.Complete)+len(e.CompleteAfterPersist) != 1 || e.Fault != nil {
		t.Errorf("%d answers, fault %v", len(e.Complete)+len(e.CompleteAfterPersist), e.Fault)
	}
}
