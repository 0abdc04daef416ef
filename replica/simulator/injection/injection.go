// Package injection has the faults of a schedule happen to the nodes, the network and the members of a run.
package injection

import (
	"slices"
	"time"

	"github.com/georegister/georegister/replica/simulator/cluster"
	"github.com/georegister/georegister/replica/simulator/faults"
	"github.com/georegister/georegister/replica/simulator/members"
	"github.com/georegister/georegister/replica/view"
)

// Injector has the faults of a schedule happen.
type Injector struct {
	*cluster.Cluster
	Manager   *members.Manager
	volumes   map[*faults.Injected]*volume // of OldCopy: what the disk will be; never ranged over
	Faultless bool                         // disks were lost for good: no other fault comes any more
}

// New makes what has faults happen to a cluster and the members that a manager decides on.
func New(w *cluster.Cluster, m *members.Manager) *Injector {
	return &Injector{Cluster: w, Manager: m, volumes: map[*faults.Injected]*volume{}}
}

// Inject adds faults to the run.
func (w *Injector) Inject(all []faults.Fault) {
	for _, planned := range all {
		f := &faults.Injected{Fault: planned}
		w.Network.Faults = append(w.Network.Faults, f)
		w.beginAfter(f, f.At)
	}
}

// beginAfter has a fault begin after some time, or go on with its next step.
func (w *Injector) beginAfter(f *faults.Injected, wait time.Duration) {
	w.After(wait, func() {
		if !w.Faultless {
			w.begin(f)
		}
	})
}

// working reports whether operations or messages are in flight at, to or from a node.
func (w *Injector) working(nd *cluster.Node) bool {
	return len(nd.Asked) > 0 || len(nd.Inbox) > 0 || len(nd.Log.Entries) > 0 || w.Busy > 0 && w.Network.InFlight(nd.Index)
}

func (w *Injector) begin(f *faults.Injected) {
	if w.Settled {
		return
	}
	var nd *cluster.Node
	if !f.Everywhere && !f.ByDefault && f.Kind != faults.Split && f.Kind != faults.LostQuorum {
		nd = w.At(f.Node)
		if nd == nil && f.Kind != faults.Change && f.Kind != faults.Lose && f.Kind != faults.Move && f.Kind != faults.WitnessCopy {
			return // no member is left there
		}
	}
	switch f.Kind {
	case faults.Change:
		w.Manager.Want(f)
	case faults.Crash, faults.Torn, faults.Wipe, faults.Rot:
		w.stop(f, nd)
	case faults.OldCopy, faults.VolumeCopy:
		w.putBack(f, nd)
	case faults.WitnessCopy:
		w.putBackWitness(f)
	case faults.Lose:
		w.loseDisk(f)
	case faults.Forget:
		if !w.Manager.QuorumLoss.Happened { // with the record and a quorum lost, nobody could tell what the last view was
			w.Manager.Forget = f
		}
	case faults.Move:
		w.Manager.Administrator.MoveHome(f)
	case faults.Split:
		w.Manager.Administrator.Split(f)
	case faults.LostQuorum:
		w.loseQuorum(f)
	case faults.Pause:
		if nd.Down || nd.Paused {
			return
		}
		f.Hit = w.working(nd)
		nd.Paused, nd.Since = true, w.Now
		w.Diagram.Note(nd.Index, "stands still")
		nd.After(f.For, nd.Resume)
	case faults.Slow:
		if nd.Down {
			return
		}
		nd.Slow, f.Active = f, true
		w.After(f.For, func() { w.end(f) })
	case faults.Misread:
		f.Hit = w.working(nd)
		w.After(f.For, nd.Misread())
	case faults.Skew:
		f.Hit = w.working(nd)
		shown := time.Duration(nd.Clock.Read(w.Now))
		nd.Clock.Set(w.Now, shown+f.Size, f.Drift)
		w.Diagram.Note(nd.Index, "clock jumps by %v", f.Size)
	default:
		w.Network.Begin(f)
	}
}

// stop crashes a process. A wipe is left out if more members than the view tolerates would have lost theirs.
func (w *Injector) stop(f *faults.Injected, nd *cluster.Node) {
	if nd.Down {
		return
	}
	if f.Kind == faults.Torn && nd.Log.Syncing == 0 && f.Waited < 100 {
		f.Waited++
		w.beginAfter(f, time.Millisecond)
		return
	}
	partitioned := w.Environment.Partitioned != nil
	switch {
	case f.Kind != faults.Wipe && f.Kind != faults.Rot:
	case partitioned && (nd.Witness != nil || !w.Manager.Expendable(nd)):
		w.postpone(f)
		return
	case !w.Manager.Tolerates(nd):
		return
	}
	f.Hit = w.working(nd)
	intact := 0
	if f.Kind == faults.Torn {
		intact = f.Intact
	}
	nd.Crash(intact, f.Rate)
	w.stopBeside(f, nd)
	if f.Kind == faults.Rot {
		nd.Rotten, nd.Lost = true, true
	}
	if f.Kind == faults.Wipe {
		nd.Wipe()
		if partitioned {
			w.LoseBeside(nd, f.For)
		}
	}
	nd.After(f.For, nd.Restart)
}

// end is when a fault is over, at the latest.
func (w *Injector) end(f *faults.Injected) {
	if f.Kind != faults.Slow {
		w.Network.End(f)
		return
	}
	f.Active = false
	for _, nd := range w.Nodes {
		if nd.Slow == f {
			nd.Slow = nil
		}
	}
}

// Settle ends all faults: from now on every node is up and every message arrives in time.
func (w *Injector) Settle() {
	w.Settled, w.Calm = true, w.Now
	w.Diagram.Remark("the faults are over")
	for _, f := range w.Network.Faults {
		w.end(f)
	}
	for _, nd := range w.Nodes {
		nd.Restart()
		nd.Resume()
	}
	w.NoteBatches()
}

// stopBeside crashes who runs beside a member, as if it were one pod.
func (w *Injector) stopBeside(f *faults.Injected, nd *cluster.Node) {
	if w.Environment.Partitioned == nil || nd.Witness != nil || !nd.Draw.Chance(500) {
		return
	}
	for _, other := range w.Nodes {
		if other.Witness != nil && other.Witness.Beside == nd.Config.Self && !other.Down && other.Born {
			other.Crash(0, f.Rate)
			other.After(f.For, other.Restart)
		}
	}
}

// loseDisk is the fault Lose at a site.
func (w *Injector) loseDisk(f *faults.Injected) {
	for _, nd := range w.Nodes {
		if nd.Witness == nil || nd.Site != f.Node || !nd.Born || !w.Manager.Expendable(nd) {
			continue
		}
		if f.Alive {
			if !nd.Down && nd.Witness.Beside == 0 {
				w.leave(f, nd)
				return
			}
			continue
		}
		f.Hit = f.Hit || w.Busy > 0
		w.Took("curp.witness-lost")
		if !nd.Down {
			nd.Crash(0, 500)
			nd.After(f.For, nd.Restart)
		}
		nd.Witness.Lose()
		return
	}
}

// leave is the fault Lose of a witness whose disk stays: it is away for some time.
func (w *Injector) leave(f *faults.Injected, nd *cluster.Node) {
	f.Hit = f.Hit || w.Busy > 0
	w.Took("curp.away")
	if w.Environment.Partitioned.Zones != nil {
		w.Took("curp.zones")
	}
	nd.Crash(0, f.Rate)
	nd.Witness.Away = w.Now + f.For
	nd.After(f.For, nd.Restart)
}

// postpone has a fault come a little later, for some time, and reports whether it does.
func (w *Injector) postpone(f *faults.Injected) bool {
	if f.Waited++; f.Waited > 100 {
		return false
	}
	w.beginAfter(f, w.Environment.Retry/4)
	return true
}

// loseQuorum is the fault LostQuorum. It comes when nothing else is the matter with the members: what two such losses leave is
// beyond what anything promises.
func (w *Injector) loseQuorum(f *faults.Injected) {
	m := w.Manager
	v := &m.Made[m.Record]
	bad := slices.ContainsFunc(v.Members, func(member view.Member) bool { return w.Nodes[member.ID-1].Lost }) ||
		slices.ContainsFunc(v.Witnesses, func(x view.Witness) bool { return !w.Nodes[x.ID-1].Witness.Intact(v) })
	if m.Lost || v.Joint() || m.Change != nil || v.Size() < 3 || bad || m.Forget != nil || w.Manager.Ahead() {
		w.postpone(f)
		return
	}
	f.Hit = w.Busy > 0
	w.Took("curp.quorum-lost")
	m.QuorumLoss.Happened, m.QuorumLoss.Incomplete = true, map[int]bool{}
	left := 1 + m.Draw.Below(v.Majority()-1)
	order := slices.Clone(v.Members)
	for i := range order {
		j := i + m.Draw.Below(len(order)-i)
		order[i], order[j] = order[j], order[i]
	}
	for _, member := range order[left:] {
		w.Nodes[member.ID-1].GiveUp()
	}
	for _, x := range v.Witnesses {
		if nd := w.Nodes[x.ID-1]; x.Beside == 0 && !nd.Gone && m.Draw.Chance(500) {
			nd.Crash(0, 500)
			nd.Witness.Lose()
			nd.Gone = true
		}
	}
	w.Diagram.Remark("a quorum is lost for good: %d of %d members are left", left, v.Size())
	m.ForgetAnswers() // what was said before counts no more
}
