package cluster

import (
	"fmt"
	"slices"
	"time"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	witnessv1 "github.com/georegister/georegister/api/witness/v1"
	"github.com/georegister/georegister/replica/membership"
	"github.com/georegister/georegister/replica/simulator/check"
	"github.com/georegister/georegister/replica/simulator/kernel"
	"github.com/georegister/georegister/replica/view"
	"github.com/georegister/georegister/witness/core"
)

// witness is a node that is one, and its disk.
type witness struct {
	node     *Node
	Beside   view.MemberID // or 0
	Core     *core.Witness
	Log      [][]byte // what is durable
	waiting  []answers
	syncing  int           // how many of waiting, from the first, the fsync in flight covers
	held     int           // the most requests that a life held
	Away     time.Duration // until when, if a fault took it away for long
	Follows  view.MemberID // the one in whose place it came since that was away or lost, or 0
	begun    int           // how many of its disks it has started on
	Stale    bool          // its disk was put back from an older copy
	said     check.Witness // what it has answered for
	compacts kernel.Stream // of when its log is written anew
	before   []uint64      // by partition: its promises, when faults ended, or a process started after that
	Lacks    []uint32      // the partitions of which that has forgotten promises
}

// answers are records of a witness's log, and what leaves once they are durable.
type answers struct {
	records [][]byte
	after   []core.Envelope
}

func newWitness(nd *Node, beside view.MemberID) *witness {
	return &witness{node: nd, Beside: beside, compacts: nd.World.Draws(kernel.ForCompaction, uint64(nd.Index))}
}

// Entry is the witness as a view names it.
func (x *witness) Entry() view.Witness {
	site := x.node.World.Environment.Network.Sites[x.node.Site]
	return view.Witness{ID: x.node.Config.Self, Site: site, Address: site, Disk: x.node.Disk(), Beside: x.Beside}
}

// start runs the witness on what its disk has.
func (x *witness) start() {
	w := x.node.World
	start := uint64(0)
	if w.Environment.Doubtful && x.begun > x.node.Disks {
		start = uint64(x.node.Index)<<32 | uint64(x.node.life)
	}
	x.begun = x.node.Disks + 1
	made, err := x.Restored(x.Log, start)
	if err != nil {
		w.Fail("%s does not start: %w", x.node.Name(), err)
		return
	}
	x.Core = made
	w.Breaches(x.named(x.said.Begins(x.node.Disk(), x.Stale, start, x.Log, func(log [][]byte) (*core.Witness, error) {
		return x.Restored(log, 0)
	})))
	x.returns()
	if x.node.Draw.Chance(300) { // its log is written anew
		x.Log = made.Snapshot()
	}
}

// Restored is the witness that a log makes.
func (x *witness) Restored(log [][]byte, start uint64) (*core.Witness, error) {
	made, err := core.New(core.Config{Slots: x.node.World.Environment.Partitioned.Slots, Disk: x.node.Disk(), Start: start})
	for i := 0; err == nil && i < len(log); i++ {
		err = made.Restore(log[i])
	}
	return made, err
}

func (x *witness) receive(in *Input) {
	if in.Message.Witness != nil {
		x.node.World.Breaches(x.named(x.said.Asks(uint32(in.from), in.Message.Witness, x.Core)))
		x.Core.Receive(uint32(in.from), in.Message.Witness)
	}
}

// flush does what the witness asks for. Records that nothing waits for are written with the next.
func (x *witness) flush() {
	e := x.Core.Ready()
	if e.Forgotten != nil {
		x.forgot(e.Forgotten)
		return
	}
	x.node.World.Breaches(x.named(x.said.Goes()))
	x.node.World.Breaches(x.named(x.said.Promises(&e, x.Core)))
	x.send(e.Send)
	if len(e.Persist)+len(e.After) > 0 {
		x.waiting = append(x.waiting, answers{e.Persist, e.After})
	}
	x.sync()
	x.checkDoubt()
	for _, life := range x.Core.Lives() {
		if x.held = max(x.held, life.Held); life.Held > life.Slots {
			x.node.World.Fail("%s holds %d requests in %d slots", x.node.Name(), life.Held, life.Slots)
		}
	}
}

// named says which witness an error is about, if there is one.
func (x *witness) named(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", x.node.Name(), err)
}

// checkDoubt sees to it that a witness is not believed on an older copy of its disk: all members have noted what that
// lacks.
func (x *witness) checkDoubt() {
	w := x.node.World
	if x.Stale && !w.Environment.Partitioned.Believing && slices.ContainsFunc(x.Lacks, func(i uint32) bool { return !x.Core.Doubts(i) }) {
		w.Fail("%s is believed, and its disk is an older copy", x.node.Name())
	}
}

func (x *witness) sync() {
	if x.syncing > 0 || !slices.ContainsFunc(x.waiting, func(a answers) bool { return len(a.after) > 0 }) {
		return
	}
	x.syncing = len(x.waiting)
	w := x.node.World
	d := w.Environment.Disks[x.node.Site]
	x.node.After(x.node.Draw.Between(d.Low, d.High), x.node.timers.synced)
}

func (x *witness) synced() {
	done := x.waiting[:x.syncing]
	x.waiting, x.syncing = slices.Clone(x.waiting[x.syncing:]), 0
	x.node.World.Diagram.Note(x.node.Index, "durable: %d batches", len(done))
	for _, a := range done {
		x.Log = append(x.Log, a.records...)
		x.node.World.Breaches(x.named(x.said.Durable(a.records)))
	}
	if len(x.waiting) == 0 {
		x.rest()
	}
	x.sync()
	for _, a := range done {
		x.send(a.after)
	}
}

// rest is a moment in which all records of the witness are durable. Now and then its log is written anew then.
func (x *witness) rest() {
	w := x.node.World
	w.Breaches(x.named(x.said.Rests(x.Core, w.Environment.Shards)))
	if x.compacts.Chance(compacted) {
		x.Log = x.Core.Snapshot()
	}
}

// compacted is in how many of 1000 moments in which all of a witness's records are durable its log is written anew.
const compacted = 200

// crash tears the log: of what an fsync was writing, the first intact ones are on disk.
func (x *witness) crash(intact int) {
	for _, a := range x.waiting[:min(intact, x.syncing)] {
		x.Log = append(x.Log, a.records...)
	}
	x.waiting, x.syncing = nil, 0
}

// Lose replaces the disk by an empty one. The witness goes on, as one that knows nothing, under its ID.
func (x *witness) Lose() {
	x.Log, x.Stale, x.Lacks = nil, false, nil
	x.node.Disks++
	x.node.World.Diagram.Happened("%d loses its disk", x.node.Index+1)
}

func (x *witness) send(envelopes []core.Envelope) {
	w := x.node.World
	for _, e := range envelopes {
		w.Breaches(x.named(x.said.Answers(e.To, e.Message)))
		if n := len(e.Message.Requests); e.Message.Kind == witnessv1.Kind_RECOVERY_DATA_REPLY && n > 1 {
			e.Message.Requests = turned(e.Message.Requests, x.node.Draw.Below(n), x.node.Draw.Chance(500))
		}
		if e.To != core.Manager {
			w.transmit(x.node, int(e.To)-1, &peerv1.Message{Kind: peerv1.Kind_WITNESS, Shard: e.Message.Partition, Witness: e.Message})
		}
	}
}

// turned has requests in another order: those of several keys commute. Those of one key stay in theirs.
func turned(requests []*witnessv1.Request, from int, reverse bool) []*witnessv1.Request {
	turned := append(slices.Clone(requests[from:]), requests[:from]...)
	if reverse {
		slices.Reverse(turned)
	}
	left := slices.Clone(requests)
	for i, r := range turned {
		first := slices.IndexFunc(left, func(o *witnessv1.Request) bool { return slices.Equal(o.Hashes, r.Hashes) })
		turned[i] = left[first]
		left = slices.Delete(left, first, first+1)
	}
	return turned
}

// Serves reports whether the witness takes requests for a term of a partition.
func (x *witness) Serves(partition int, term uint64) bool {
	return slices.ContainsFunc(x.Core.Lives(), func(l core.Life) bool {
		return int(l.Partition) == partition && l.Term == term && !l.Frozen
	})
}

// report is what the witness answers to the manager, who asks for its lives.
func (x *witness) report() *membership.WitnessReport {
	x.Core.Receive(core.Manager, &witnessv1.Message{Kind: witnessv1.Kind_LIVES})
	answer := &witnessv1.Message{}
	for _, e := range x.Core.Ready().Send {
		answer = e.Message
	}
	x.node.World.Breaches(x.named(x.said.Tells(answer, x.Core)))
	r := &membership.WitnessReport{Witness: x.node.Config.Self, Disk: answer.Disk}
	for _, l := range answer.Lives {
		r.Lives = append(r.Lives, membership.Life{Witness: r.Witness, Partition: int(l.Partition), Term: l.Term})
	}
	return r
}

// Seconded reports whether a witness serves partitions, and each of them has another one, to recover from while the
// master is away.
func (x *witness) Seconded() bool {
	w := x.node.World
	v := &w.Made[w.Record]
	serves := false
	for _, p := range v.Partitions {
		if !slices.Contains(p.Witnesses, x.node.Config.Self) {
			continue
		}
		serves = true
		if !slices.ContainsFunc(p.Witnesses, func(id view.MemberID) bool { return id != x.node.Config.Self && w.Nodes[id-1].Witness.Intact(v) }) {
			return false
		}
	}
	return serves
}

// Intact reports whether the witness has the disk that a view names.
func (x *witness) Intact(v *Made) bool {
	entry, known := v.Witness(x.node.Config.Self)
	return known && entry.Disk == x.node.Disk() && !x.Stale
}

// returns notes that a witness starts whose place another one took while it was away.
func (x *witness) returns() {
	w := x.node.World
	if x.Away == 0 {
		return
	}
	x.Away = 0
	if _, known := w.Made[w.Record].Witness(x.node.Config.Self); !known {
		w.Took("curp.returned")
	}
}

// forgot is what a world does with a witness that has found out that its disk is an older copy: the disk is replaced.
func (x *witness) forgot(why *core.Forgotten) {
	w := x.node.World
	if !x.Stale {
		w.Fail("%s takes its disk for an older copy, and it is whole: %w", x.node.Name(), why)
		return
	}
	w.Took("old-copy.witness-found")
	w.Diagram.Note(x.node.Index, "finds out that its disk is an older copy")
	x.node.Crash(0, 0)
	x.Lose()
	x.node.After(w.Environment.Retry/4, x.node.Restart)
}
