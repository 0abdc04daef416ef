package simulator

import (
	"time"

	"github.com/georegister/georegister/replica/simulator/faults"
)

// fault is a Fault in a run.
type fault struct {
	faults.Fault
	active bool
	waited int     // Torn: how many milliseconds it waited for an fsync
	hit    bool    // it hit work in flight
	volume *volume // OldCopy: what the disk will be
}

// touch notes that the fault changed the fate of a message or a turn while operations were in progress.
func (f *fault) touch(w *world) { f.hit = f.hit || w.Busy > 0 }

// inject adds faults to the run.
func (w *world) inject(faults []faults.Fault) {
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
	if len(nd.asked) > 0 || len(nd.inbox) > 0 || len(nd.log.Entries) > 0 {
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
	if !f.Everywhere && !f.ByDefault && f.Kind != faults.Split && f.Kind != faults.LostQuorum {
		nd = w.at(f.Node)
		if nd == nil && f.Kind != faults.Change && f.Kind != faults.Lose && f.Kind != faults.Move && f.Kind != faults.WitnessCopy {
			return // no member is left there
		}
	}
	switch f.Kind {
	case faults.Change:
		w.manager.want(f)
	case faults.Crash, faults.Torn, faults.Wipe, faults.Rot:
		f.stop(w, nd)
	case faults.OldCopy, faults.VolumeCopy:
		f.putBack(w, nd)
	case faults.WitnessCopy:
		f.putBackWitness(w)
	case faults.Lose:
		f.loseDisk(w)
	case faults.Forget:
		if !w.manager.ruined { // with the record and a quorum lost, nobody could tell what the last view was
			w.manager.forget = f
		}
	case faults.Move:
		w.manager.rehome(f)
	case faults.Split:
		w.manager.split(f)
	case faults.LostQuorum:
		f.ruin(w)
	case faults.Pause:
		if nd.down || nd.paused {
			return
		}
		f.hit = w.working(nd)
		nd.paused, nd.since = true, w.Now
		w.trace.Note(nd.index, "stands still")
		nd.after(f.For, nd.resume)
	case faults.Slow:
		if nd.down {
			return
		}
		nd.slow, f.active = f, true
	case faults.Skew:
		f.hit = w.working(nd)
		shown := time.Duration(nd.clock.Read(w.Now))
		nd.clock.Set(w.Now, shown+f.Size, f.Drift)
		w.trace.Note(nd.index, "clock jumps by %v", f.Size)
	default:
		f.active = true
		w.refreshLinks()
		w.trace.Remark("begins: %v", f.Fault)
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
	if f.Kind == faults.Torn && nd.log.Syncing == 0 && f.waited < 100 {
		f.waited++
		f.beginAfter(w, time.Millisecond)
		return
	}
	parted := w.env.Partitioned != nil
	switch {
	case f.Kind != faults.Wipe && f.Kind != faults.Rot:
	case parted && nd.witness != nil, parted && !w.expendable(nd):
		f.postpone(w)
		return
	case !w.tolerates(nd):
		return
	}
	f.hit = w.working(nd)
	intact := 0
	if f.Kind == faults.Torn {
		intact = f.Intact
	}
	nd.crash(intact, f.Rate)
	f.stopBeside(w, nd)
	if f.Kind == faults.Rot {
		nd.rotten, nd.lost = true, true
	}
	if f.Kind == faults.Wipe {
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
	if f.Kind == faults.Slow {
		for _, nd := range w.nodes {
			if nd.slow == f {
				nd.slow = nil
			}
		}
		return
	}
	w.refreshLinks()
	w.trace.Remark("ends: %v", f.Fault)
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
				case faults.Partition:
					if f.Blocks(from, to) {
						l.partition = f
					}
				case faults.Loss:
					l.loss = f
				case faults.Duplicate:
					l.duplicate = f
				case faults.Reorder:
					l.reorder = f
				}
			}
		}
	}
}

// settle ends all faults: from now on every node is up and every message arrives in time.
func (w *world) settle() {
	w.Settled, w.Calm = true, w.Now
	w.trace.Remark("the faults are over")
	for _, f := range w.faults {
		f.end(w)
	}
	for _, nd := range w.nodes {
		nd.restart()
		nd.resume()
	}
}
