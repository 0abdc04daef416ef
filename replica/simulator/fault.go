package simulator

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// FaultKind names a kind of fault.
type FaultKind string

// The kinds of faults.
const (
	Crash     FaultKind = "crash"     // a process stops, loses what was not durable, and starts again
	Torn      FaultKind = "torn"      // as Crash, while an fsync is in flight, of which a part reached the disk
	Wipe      FaultKind = "wipe"      // as Crash, and the disk is empty afterwards
	Partition FaultKind = "partition" // nothing passes from some nodes to others, perhaps one way only
	Loss      FaultKind = "loss"      // messages are lost
	Duplicate FaultKind = "duplicate" // messages arrive twice
	Reorder   FaultKind = "reorder"   // messages overtake each other
	Slow      FaultKind = "slow"      // a node handles its inputs late, and in heaps
	Skew      FaultKind = "skew"      // a node's clock jumps ahead and runs at another speed
	// A process stands still, or its machine is suspended, while time and clock go on, then continues.
	Pause   FaultKind = "pause"
	OldCopy FaultKind = "old-copy" // as Crash, and the disk is then what it was some time before
	// As Crash, and the next process finds the disk damaged, and begins with an empty one.
	Rot    FaultKind = "rot"
	Change FaultKind = "change" // members join and leave: a joint view, then the one after it or the one before it
)

// FaultKinds lists all kinds.
func FaultKinds() []FaultKind {
	return []FaultKind{Crash, Torn, Wipe, Partition, Loss, Duplicate, Reorder, Slow, Skew, Pause, OldCopy, Rot, Change}
}

// ParseFaults reads "none", "all" or a list such as "crash,loss".
func ParseFaults(list string) ([]FaultKind, error) { return parseFaults(list, FaultKinds()) }

// ParseCURPFaults is ParseFaults for worlds with masters and witnesses.
func ParseCURPFaults(list string) ([]FaultKind, error) { return parseFaults(list, CURPFaultKinds()) }

// ParseCURPExperimentFaults is ParseCURPFaults for experiments, in which members stay.
func ParseCURPExperimentFaults(list string) ([]FaultKind, error) {
	return parseFaults(list, CURPExperimentFaultKinds())
}

func parseFaults(list string, known []FaultKind) ([]FaultKind, error) {
	switch list {
	case "none", "":
		return nil, nil
	case "all":
		return known, nil
	}
	var kinds []FaultKind
	for _, name := range strings.Split(list, ",") {
		kind := FaultKind(strings.TrimSpace(name))
		if !slices.Contains(known, kind) {
			return nil, fmt.Errorf("unknown fault %q; known are none, all, or some of %v", name, known)
		}
		if !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
	}
	return kinds, nil
}

// Fault is one fault of a schedule.
type Fault struct {
	Kind FaultKind
	At   time.Duration
	// Until it is undone: the process starts again, the partition heals, ...; Change: between rounds of calls.
	For time.Duration
	// Node is the position of the site where the fault is; of Change, where the first one leaves, and of Move, where the
	// master goes.
	Node       int
	Everywhere bool   // Partition, Loss, Duplicate, Reorder: on all links; else on those of Node
	ByDefault  bool   // Move: the master goes where it is without a move, and not to Node
	Partition  int    // Move: the partition of the view, by its index
	Side       uint64 // Partition: a bit per node on the one side; Change: per node that the manager does not reach
	// OneWay partitions block only what goes from Side to the others.
	OneWay bool
	// Rate is how many of 1000 messages the fault hits: of those that are sent meanwhile (Loss, Duplicate, Reorder), are
	// on their way when it begins (Partition, and whatever stops a process), or are the manager's calls (Change).
	Rate  int
	Drift int // Skew: how many millionths the clock is fast
	// Duplicate, Reorder, Slow, Change: the longest extra delay; Skew: how far the clock jumps; OldCopy: how old the copy
	// is, which is made At.
	Size   time.Duration
	Intact int  // Torn: how many batches of the fsync in flight reach the disk
	Join   int  // Change: how many members join
	Leave  int  // Change: how many leave
	Alive  bool // Change: the processes of those who leave live on; else they are gone for ever
}

// atNode reports whether Node says where the fault is.
func (f *Fault) atNode() bool {
	return !f.Everywhere && !f.ByDefault && f.Kind != Split && f.Kind != Ruin
}

// String describes the fault in a line.
func (f Fault) String() string {
	where := fmt.Sprintf("member %d", f.Node+1)
	if f.Everywhere {
		where = "all links"
	}
	text := fmt.Sprintf("%s of %s at %v for %v", f.Kind, where, f.At, f.For)
	switch f.Kind {
	case Partition:
		text = fmt.Sprintf("partition of members %s at %v for %v", members(f.Side), f.At, f.For)
		if f.OneWay {
			text += ", one way"
		}
	case Loss, Duplicate, Reorder:
		text += fmt.Sprintf(", %d of 1000 messages", f.Rate)
	case Move:
		text = fmt.Sprintf("move at %v: partition %d, to site %d", f.At, f.Partition, f.Node+1)
		if f.ByDefault {
			text = fmt.Sprintf("move at %v: partition %d, to where it is by default", f.At, f.Partition)
		}
	case Split:
		text = fmt.Sprintf("split at %v: there is to be one partition more", f.At)
	case Ruin:
		text = fmt.Sprintf("ruin at %v: a quorum is lost for good", f.At)
	case Slow, Skew, OldCopy, witnessCopy, volumeCopy:
		text += fmt.Sprintf(", by %v", f.Size)
	case Change:
		text = fmt.Sprintf("change at %v: %d join, %d leave, the one at site %d first; a round of calls every %v",
			f.At, f.Join, f.Leave, f.Node+1, f.For)
		if f.Side != 0 {
			text += fmt.Sprintf(", none of members %s", members(f.Side))
		}
		if f.Alive {
			text += "; their processes live on"
		}
	}
	return text
}

func members(side uint64) string {
	var names []string
	for i := range 64 {
		if side&(1<<i) != 0 {
			names = append(names, fmt.Sprint(i+1))
		}
	}
	return strings.Join(names, "+")
}

// fault is a Fault in a run.
type fault struct {
	Fault
	active bool
	waited int     // Torn: how many milliseconds it waited for an fsync
	hit    bool    // it hit work in flight
	volume *volume // OldCopy: what the disk will be
}

func (f *fault) blocks(from, to int) bool {
	if f.Kind != Partition || !f.active {
		return false
	}
	out, in := f.Side&(1<<from) != 0, f.Side&(1<<to) != 0
	return out && !in || !f.OneWay && in && !out
}

// touch notes that the fault changed the fate of a message or a turn while operations were in progress.
func (f *fault) touch(w *world) { f.hit = f.hit || w.Busy > 0 }

// inject adds faults to the run.
func (w *world) inject(faults []Fault) {
	for _, planned := range faults {
		f := &fault{Fault: planned}
		w.faults = append(w.faults, f)
		f.beginAfter(w, f.At)
	}
}

// beginAfter has a fault begin after some time, or go on with its next step.
func (f *fault) beginAfter(w *world, wait time.Duration) {
	w.After(wait, func() {
		if !w.faultless {
			f.begin(w)
		}
	})
}

// working reports whether operations or messages are in flight at, to or from a node.
func (w *world) working(nd *node) bool {
	if len(nd.asked) > 0 || len(nd.inbox) > 0 || len(nd.log.entries) > 0 {
		return true
	}
	n := len(w.nodes)
	for other := range n {
		if w.links[nd.index*n+other].flying > 0 || w.links[other*n+nd.index].flying > 0 {
			return w.Busy > 0
		}
	}
	return false
}

func (f *fault) begin(w *world) {
	if w.Settled {
		return
	}
	var nd *node
	if f.atNode() {
		nd = w.at(f.Node)
		if nd == nil && f.Kind != Change && f.Kind != Lose && f.Kind != Move && f.Kind != Ruin && f.Kind != Split && f.Kind != witnessCopy {
			return // nobody is left there
		}
	}
	switch f.Kind {
	case Change:
		w.manager.want(f)
	case Crash, Torn, Wipe, Rot:
		f.stop(w, nd)
	case OldCopy, volumeCopy:
		f.putBack(w, nd)
	case witnessCopy:
		f.putBackWitness(w)
	case Lose:
		f.loseDisk(w)
	case Forget:
		if !w.manager.ruined { // with the record and a quorum lost, nobody could tell what the last view was
			w.manager.forget = f
		}
	case Move:
		w.manager.rehome(f)
	case Split:
		w.manager.split(f)
	case Ruin:
		f.ruin(w)
	case Pause:
		if nd.down || nd.paused {
			return
		}
		f.hit = w.working(nd)
		nd.paused, nd.since = true, w.Now
		w.trace.note(nd, "stands still")
		nd.after(f.For, nd.resume)
	case Slow:
		if nd.down {
			return
		}
		nd.slow, f.active = f, true
	case Skew:
		f.hit = w.working(nd)
		shown := time.Duration(nd.clock.read(w.Now))
		nd.clock.set(w.Now, shown+f.Size, f.Drift)
		w.trace.note(nd, "clock jumps by %v", f.Size)
	default:
		f.active = true
		w.refreshLinks()
		w.trace.remark("begins: %v", f.Fault)
	}
	if f.active {
		w.After(f.For, func() { f.end(w) })
	}
}

// stop crashes a process. A wipe is left out if more members than the view tolerates would have lost theirs.
func (f *fault) stop(w *world, nd *node) {
	if nd.down {
		return
	}
	if f.Kind == Torn && nd.log.syncing == 0 && f.waited < 100 {
		f.waited++
		f.beginAfter(w, time.Millisecond)
		return
	}
	parted := w.env.parted != nil
	switch {
	case f.Kind != Wipe && f.Kind != Rot:
	case parted && nd.witness != nil, parted && !w.expendable(nd):
		f.postpone(w)
		return
	case !w.tolerates(nd):
		return
	}
	f.hit = w.working(nd)
	intact := 0
	if f.Kind == Torn {
		intact = f.Intact
	}
	nd.crash(intact, f.Rate)
	f.stopBeside(w, nd)
	if f.Kind == Rot {
		nd.rotten, nd.lost = true, true
	}
	if f.Kind == Wipe {
		nd.wipe()
		if parted {
			w.loseBeside(nd, f.For)
		}
	}
	nd.after(f.For, nd.restart)
}

func (f *fault) end(w *world) {
	if !f.active {
		return
	}
	f.active = false
	if f.Kind == Slow {
		for _, nd := range w.nodes {
			if nd.slow == f {
				nd.slow = nil
			}
		}
		return
	}
	w.refreshLinks()
	w.trace.remark("ends: %v", f.Fault)
}

// refreshLinks puts the active faults in force on every link; of two faults of one kind, the later.
func (w *world) refreshLinks() {
	n := len(w.nodes)
	for from := range n {
		for to := range n {
			l := &w.links[from*n+to]
			l.partition, l.loss, l.duplicate, l.reorder = nil, nil, nil, nil
			for _, f := range w.faults {
				if !f.active || !f.Everywhere && f.Node != w.nodes[from].site && f.Node != w.nodes[to].site {
					continue
				}
				switch f.Kind {
				case Partition:
					if f.blocks(from, to) {
						l.partition = f
					}
				case Loss:
					l.loss = f
				case Duplicate:
					l.duplicate = f
				case Reorder:
					l.reorder = f
				}
			}
		}
	}
}

// settle ends all faults: from now on every node is up and every message arrives in time.
func (w *world) settle() {
	w.Settled, w.Calm = true, w.Now
	w.trace.remark("the faults are over")
	for _, f := range w.faults {
		f.end(w)
	}
	for _, nd := range w.nodes {
		nd.restart()
		nd.resume()
	}
}
