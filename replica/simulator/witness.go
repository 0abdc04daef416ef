package simulator

import (
	"slices"
	"time"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	witnessv1 "github.com/georegister/georegister/api/witness/v1"
	"github.com/georegister/georegister/replica/membership"
	"github.com/georegister/georegister/replica/view"
	"github.com/georegister/georegister/witness/core"
)

// witness is a node that is one, and its disk.
type witness struct {
	node    *node
	beside  view.MemberID // or 0
	core    *core.Witness
	log     [][]byte // what is durable
	waiting []answers
	syncing int           // how many of waiting, from the first, the fsync in flight covers
	held    int           // the most requests that a life held
	away    time.Duration // until when, if a fault took it away for long
	follows view.MemberID // the one in whose place it came since that was away or lost, or 0
	begun   int           // how many of its disks it has started on
	stale   bool          // its disk was put back from an older copy
	lacks   []uint32      // the partitions of which that has forgotten promises
}

// answers are records of a witness's log, and what leaves once they are durable.
type answers struct {
	records [][]byte
	after   []core.Envelope
}

// entry is the witness as a view names it.
func (x *witness) entry() view.Witness {
	site := x.node.world.env.Network.Sites[x.node.site]
	return view.Witness{ID: x.node.config.Self, Site: site, Address: site, Disk: x.node.disk(), Beside: x.beside}
}

// start runs the witness on what its disk has.
func (x *witness) start() {
	w := x.node.world
	start := uint64(0)
	if w.env.Doubtful && x.begun > x.node.disks {
		start = uint64(x.node.index)<<32 | uint64(x.node.life)
	}
	x.begun = x.node.disks + 1
	made, err := x.restored(x.log, start)
	if err != nil {
		w.Fail("%s does not start: %w", x.node.name(), err)
		return
	}
	x.core = made
	x.returns()
	if x.node.draw.Chance(300) { // its log is written anew
		x.log = nil
		for record := range made.Snapshot() {
			x.log = append(x.log, slices.Clone(record))
		}
	}
}

// restored is the witness that a log makes.
func (x *witness) restored(log [][]byte, start uint64) (*core.Witness, error) {
	made, err := core.New(core.Config{Slots: x.node.world.env.Partitioned.Slots, Disk: x.node.disk(), Start: start})
	for i := 0; err == nil && i < len(log); i++ {
		err = made.Restore(log[i])
	}
	return made, err
}

func (x *witness) receive(in *input) {
	if in.message.Witness != nil {
		x.core.Receive(uint32(in.from), in.message.Witness)
	}
}

// flush does what the witness asks for. Records that nothing waits for are written with the next.
func (x *witness) flush() {
	e := x.core.Ready()
	if e.Forgotten != nil {
		x.forgot(e.Forgotten)
		return
	}
	x.send(e.Send)
	if len(e.Persist)+len(e.After) > 0 {
		x.waiting = append(x.waiting, answers{e.Persist, e.After})
	}
	x.sync()
	x.checkDoubt()
	for _, life := range x.core.Lives() {
		if x.held = max(x.held, life.Held); life.Held > life.Slots {
			x.node.world.Fail("%s holds %d requests in %d slots", x.node.name(), life.Held, life.Slots)
		}
	}
}

// checkDoubt sees to it that a witness is not believed on an older copy of its disk: all members have noted what that
// lacks.
func (x *witness) checkDoubt() {
	w := x.node.world
	if x.stale && !w.env.Partitioned.Believing && slices.ContainsFunc(x.lacks, func(i uint32) bool { return !x.core.Doubts(i) }) {
		w.Fail("%s is believed, and its disk is an older copy", x.node.name())
	}
}

func (x *witness) sync() {
	if x.syncing > 0 || !slices.ContainsFunc(x.waiting, func(a answers) bool { return len(a.after) > 0 }) {
		return
	}
	x.syncing = len(x.waiting)
	w := x.node.world
	d := w.env.Disks[x.node.site]
	x.node.after(x.node.draw.Between(d.Low, d.High), x.node.synced)
}

func (x *witness) synced() {
	done := x.waiting[:x.syncing]
	x.waiting, x.syncing = slices.Clone(x.waiting[x.syncing:]), 0
	x.node.world.trace.Note(x.node.index, "durable: %d batches", len(done))
	for _, a := range done {
		x.log = append(x.log, a.records...)
	}
	x.sync()
	for _, a := range done {
		x.send(a.after)
	}
}

// crash tears the log: of what an fsync was writing, the first intact ones are on disk.
func (x *witness) crash(intact int) {
	for _, a := range x.waiting[:min(intact, x.syncing)] {
		x.log = append(x.log, a.records...)
	}
	x.waiting, x.syncing = nil, 0
}

// lose replaces the disk by an empty one. The witness goes on, as one that knows nothing, under its ID.
func (x *witness) lose() {
	x.log, x.stale, x.lacks = nil, false, nil
	x.node.disks++
	x.node.world.trace.Happened("%d loses its disk", x.node.index+1)
}

func (x *witness) send(envelopes []core.Envelope) {
	w := x.node.world
	for _, e := range envelopes {
		if n := len(e.Message.Requests); e.Message.Kind == witnessv1.Kind_RECOVERY_DATA_REPLY && n > 1 { // they commute
			from := x.node.draw.Below(n)
			e.Message.Requests = append(slices.Clone(e.Message.Requests[from:]), e.Message.Requests[:from]...)
			if x.node.draw.Chance(500) {
				slices.Reverse(e.Message.Requests)
			}
		}
		if e.To != core.Manager {
			w.transmit(x.node.index, int(e.To)-1, &peerv1.Message{Kind: peerv1.Kind_WITNESS, Shard: e.Message.Partition, Witness: e.Message})
		}
	}
}

// serves reports whether the witness takes requests for a term of a partition.
func (x *witness) serves(partition int, term uint64) bool {
	return slices.ContainsFunc(x.core.Lives(), func(l core.Life) bool {
		return int(l.Partition) == partition && l.Term == term && !l.Frozen
	})
}

// report is what the witness says of itself.
func (x *witness) report() membership.WitnessReport {
	r := membership.WitnessReport{Witness: x.node.config.Self, Disk: x.node.disk()}
	for _, l := range x.core.Lives() {
		r.Lives = append(r.Lives, membership.Life{Witness: r.Witness, Partition: int(l.Partition), Term: l.Term})
	}
	return r
}

// seconded reports whether a witness serves partitions, and each of them has another one, to recover from while the
// master is away.
func (x *witness) seconded() bool {
	w := x.node.world
	v := &w.manager.views[w.manager.record]
	serves := false
	for _, p := range v.Partitions {
		if !slices.Contains(p.Witnesses, x.node.config.Self) {
			continue
		}
		serves = true
		if !slices.ContainsFunc(p.Witnesses, func(id view.MemberID) bool { return id != x.node.config.Self && w.nodes[id-1].witness.intact(v) }) {
			return false
		}
	}
	return serves
}

// intact reports whether the witness has the disk that a view names.
func (x *witness) intact(v *made) bool {
	entry, known := v.Witness(x.node.config.Self)
	return known && entry.Disk == x.node.disk() && !x.stale
}

// stopBeside crashes who runs beside a member, as if it were one pod.
func (f *fault) stopBeside(w *world, nd *node) {
	if w.env.Partitioned == nil || nd.witness != nil || !nd.draw.Chance(500) {
		return
	}
	for _, other := range w.nodes {
		if other.witness != nil && other.witness.beside == nd.config.Self && !other.down && other.born {
			other.crash(0, f.Rate)
			other.after(f.For, other.restart)
		}
	}
}

// loseDisk is the fault Lose at a site.
func (f *fault) loseDisk(w *world) {
	for _, nd := range w.nodes {
		if nd.witness == nil || nd.site != f.Node || !nd.born || !w.expendable(nd) {
			continue
		}
		if f.Alive {
			if !nd.down && nd.witness.beside == 0 {
				f.leave(w, nd)
				return
			}
			continue
		}
		f.hit = f.hit || w.Busy > 0
		w.Took("curp.witness-lost")
		if !nd.down {
			nd.crash(0, 500)
			nd.after(f.For, nd.restart)
		}
		nd.witness.lose()
		return
	}
}
