package script

import (
	"encoding/binary"
	"fmt"
	"hash"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/catalog"
	"github.com/georegister/georegister/replica/protocol/member"
	"github.com/georegister/georegister/replica/protocol/notation"
	"github.com/georegister/georegister/replica/protocol/protocoltest"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

const (
	retry   = time.Second
	suspect = 5 * time.Second
)

var limits = register.DefaultLimits()

// world runs members step by step.
type world struct {
	factory    member.Factory
	view       view.View // the newest
	nodes      []*node   // member i+1 at i
	packets    []packet  // under way, as sent
	manual     bool      // batches become durable only by command
	now        protocol.Instant
	starts     uint64       // of processes
	operations []submission // so far; a handle is a position from 1
	// The handles of the script's own, by which it names them; 0: it could not be submitted.
	numbers   []uint64
	sessions  sessions
	functions *register.Registry
	inputs    hash.Hash64        // of all that members were given, if nobody reads the output; nil: somebody does
	fault     error              // of a member, the last one
	meddle    func(*packet) bool // what perturbs the script says whether a packet arrives; nil: nothing does
	t         *testing.T         // of the present command
	out       strings.Builder
}

type node struct {
	id       view.MemberID
	name     string
	view     view.View
	disk     protocoltest.Disk
	founded  bool // the first view of the member names its disk, which votes while it is empty
	boot     uint32
	journal  *protocol.Journal
	member   *member.Member // nil: down
	sequence uint64         // of the last batch
	batches  []protocol.Batch
	waiting  []waiting
}

// waiting is what may leave once a batch is durable.
type waiting struct {
	sequence uint64
	effects  protocol.Effects
}

type packet struct {
	from, to view.MemberID
	message  *peerv1.Message
}

func (w *world) printf(format string, args ...any) {
	if w.inputs == nil {
		fmt.Fprintf(&w.out, format+"\n", args...)
	}
}

// given notes what a member was given: members that are given the same do the same.
func (w *world) given(n *node, what string, m *peerv1.Message) {
	if w.inputs == nil {
		return
	}
	var message []byte
	if m != nil {
		var err error
		if message, err = m.MarshalVT(); err != nil {
			w.t.Fatal(err)
		}
	}
	for _, part := range [][]byte{[]byte(n.name), []byte(what), message} {
		_, _ = w.inputs.Write(binary.AppendUvarint(nil, uint64(len(part)))) // a hash has no errors
		_, _ = w.inputs.Write(part)
	}
}

func (w *world) add(id view.MemberID) {
	w.nodes = append(w.nodes, &node{id: id, name: notation.Member(id), disk: protocoltest.Disk{}, founded: true})
}

func (w *world) start(n *node) error {
	if n.member != nil {
		w.crash(n)
	}
	n.boot++
	w.starts++
	w.given(n, "start", nil)
	n.sequence = 0
	n.journal = protocol.NewJournal(n.disk)
	config := protocol.Config{
		Self: n.id, View: n.view, Boot: n.boot, Functions: w.functions, Limits: limits,
		Retry: retry, Suspect: suspect, Seed: uint64(n.id), Nonce: w.starts, Bootstrap: n.founded, Undoubted: true,
	}
	for i := 1; i < n.view.Size(); i++ { // nearest is the next one
		config.Nearest = append(config.Nearest, n.view.Members[(n.view.Index(n.id)+i)%n.view.Size()].ID)
	}
	m, err := member.Start(config, n.journal, w.factory)
	if err != nil {
		return fmt.Errorf("start %s: %w", n.name, err)
	}
	n.member = m
	m.Tick(w.now)
	if n.view.Epoch > 1 {
		w.printf("%s: starts in the view of epoch %d, boot %d", n.name, n.view.Epoch, n.boot)
	} else {
		w.printf("%s: starts, boot %d", n.name, n.boot)
	}
	w.ready(n)
	return nil
}

// wipe has a member start from an empty disk.
func (w *world) wipe(n *node) {
	n.disk, n.founded = protocoltest.Disk{}, false
	n.boot = 0
}

// restart is start of a member that may have left the view meanwhile.
func (w *world) restart(n *node) {
	if err := w.start(n); err != nil {
		w.printf("left out: %v", err)
	}
}

func (w *world) crash(n *node) {
	w.given(n, "crash", nil)
	w.printf("%s: crashes", n.name)
	for _, b := range n.batches {
		w.printf("%s: loses batch %d", n.name, b.Sequence)
	}
	n.member, n.batches, n.waiting = nil, nil, nil
}

func (w *world) deliver(p packet) {
	if w.meddle != nil && !w.meddle(&p) {
		return
	}
	n := w.nodes[p.to-1]
	if n.member == nil {
		w.printf("lost, %s is down: %s", n.name, p)
		return
	}
	w.given(n, notation.Member(p.from), p.message)
	w.printf("%s <- %s: %s", n.name, notation.Member(p.from), kindName(catalog.MessagesOf(p.message), p.message))
	n.member.Receive(p.from, p.message)
	w.ready(n)
}

// ready does what a member asks for after a step.
func (w *world) ready(n *node) {
	e := n.member.Ready()
	if e.Fault != nil {
		w.fault = e.Fault
		w.printf("%s: stops: %v", n.name, e.Fault)
		w.crash(n)
		return
	}
	w.release(n, e.Send, e.Complete)
	if e.Persist.Sequence != 0 {
		n.sequence = e.Persist.Sequence
		n.batches = append(n.batches, e.Persist)
		for _, m := range e.Persist.Mutations {
			if w.inputs == nil {
				w.printf("%s: batch %d, %s", n.name, e.Persist.Sequence, describeRecord(m.Key, m.Value))
			}
		}
	}
	behind := protocol.Effects{SendAfterPersist: e.SendAfterPersist, CompleteAfterPersist: e.CompleteAfterPersist}
	if len(n.batches) == 0 {
		w.release(n, behind.SendAfterPersist, behind.CompleteAfterPersist)
		return
	}
	n.waiting = append(n.waiting, waiting{n.sequence, behind})
	if w.manual {
		for _, s := range behind.SendAfterPersist {
			w.printf("%s: after batch %d, %s", n.name, n.sequence, packet{n.id, s.To, s.Message})
		}
		for _, c := range behind.CompleteAfterPersist {
			w.printf("%s: after batch %d, %s", n.name, n.sequence, w.describeCompletion(c))
		}
		return
	}
	for len(n.batches) > 0 {
		w.persist(n)
	}
}

// persist makes a member's oldest batch durable, and lets go what waited for it.
func (w *world) persist(n *node) {
	w.given(n, "persisted", nil)
	b := n.batches[0]
	n.batches = n.batches[1:]
	n.disk.Write(b)
	n.journal.Persisted(b.Sequence)
	if w.manual {
		w.printf("%s: batch %d is durable", n.name, b.Sequence)
	}
	for len(n.waiting) > 0 && n.waiting[0].sequence <= b.Sequence {
		e := n.waiting[0].effects
		n.waiting = n.waiting[1:]
		w.release(n, e.SendAfterPersist, e.CompleteAfterPersist)
	}
}

func (w *world) release(n *node, send []protocol.Envelope, complete []protocol.Completion) {
	for _, e := range send {
		p := packet{n.id, e.To, e.Message}
		w.packets = append(w.packets, p)
		w.printf("%s", p)
	}
	for _, c := range complete {
		if w.inputs == nil {
			w.printf("%s: %s", n.name, w.describeCompletion(c))
		}
		w.ended(c)
	}
}

// show tells what is under way, or what a member holds, and in a joint view how far it is.
func (w *world) show(d *datadriven.TestData) error {
	if len(d.CmdArgs) == 1 && d.CmdArgs[0].Key == "network" {
		for _, p := range w.packets {
			w.printf("%s", p)
		}
		return nil
	}
	n, err := w.node(d, 0)
	if err != nil {
		return err
	}
	scan, durable := n.disk.Scan, func([]byte) bool { return true }
	if n.member == nil {
		w.printf("%s is down", n.name)
	} else {
		scan, durable = n.journal.Scan, n.journal.Durable
	}
	scan(nil, func(key, value []byte) bool {
		mark := ""
		if !durable(key) {
			mark = " ?"
		}
		w.printf("%s%s", describeRecord(key, value), mark)
		return true
	})
	if n.member != nil && n.member.Change().Joint {
		c := n.member.Change()
		w.printf("settled %t, fetched %t of %t", c.Settled, c.Fetched, c.Transfers)
	}
	return nil
}
