package cluster

import (
	"fmt"
	"strconv"

	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// transferKey is where member.Member keeps how far a transfer is.
const transferKey = "mt"

// None stands for the position of no view.
const None = -1

// Disk names the node's present disk.
func (nd *Node) Disk() string {
	if nd.named != nd.Disks {
		nd.named, nd.disk = nd.Disks, diskName(nd.Config.Self, nd.Disks)
	}
	return nd.disk
}

func diskName(id view.MemberID, number int) string {
	return "disk-" + strconv.Itoa(int(id)) + "-" + strconv.Itoa(number)
}

// founded reports that an empty disk of the node votes: the view names it.
func (nd *Node) founded() bool {
	i := nd.Config.View.Index(nd.Config.Self)
	return i >= 0 && nd.Config.View.Members[i].Disk == nd.Disk()
}

// Enter makes a view the one that the next process runs in. It is on the disk from now on.
func (nd *Node) Enter(position int) {
	w := nd.World
	v := view.View{}
	if position != None {
		v = w.Made[position].View
	}
	if v.Epoch > 0 && len(v.Partitions) < len(nd.Config.View.Partitions) {
		nd.World.Took("curp.split.forgotten")
	}
	nd.Held, nd.Acts = position, v.Index(nd.Config.Self) >= 0
	nd.Config.View, nd.Config.Nearest = v, nil
	for _, site := range append([]int{nd.Site}, nd.World.Environment.Network.Nearest(nd.Site)...) {
		for _, other := range v.Members {
			if other.ID != nd.Config.Self && nd.World.Nodes[other.ID-1].Site == site {
				nd.Config.Nearest = append(nd.Config.Nearest, other.ID)
			}
		}
	}
	w.noteHeld(position)
}

// forget is what a lost disk does to the view that the node holds: it has the one of its boot file, the cluster's first
// one, or none until the manager tells it one.
func (nd *Node) forget() {
	w := nd.World
	switch {
	case len(w.Made) > 1 && (w.Draw.Chance(500) || w.Made[0].Index(nd.Config.Self) < 0):
		nd.Enter(None)
	case nd.Acts:
		nd.Enter(0)
	}
}

// Name is the node's, for people.
func (nd *Node) Name() string { return fmt.Sprintf("member %d", nd.Config.Self) }

// transferring reports whether the node keeps a record of a state transfer.
func (nd *Node) transferring() bool {
	for _, s := range nd.Shards {
		if m, ok := s.Protocol.(protocol.Joiner); ok && m.Change().Records > 0 {
			return true
		}
		if _, ok := s.Disk.Records[transferKey]; ok {
			return true
		}
	}
	return false
}

// Learn gives a running process a view. It takes it on, and reports that, if it is newer than its own.
func (nd *Node) Learn(position int) bool {
	w := nd.World
	if nd.Down || nd.Paused {
		return false
	}
	v := w.Made[position].View
	if v.Epoch <= nd.Config.View.Epoch || v.Index(nd.Config.Self) < 0 && nd.Config.Self > v.LastIssued() {
		return false
	}
	w.Diagram.Note(nd.Index, "takes on the view of epoch %d", v.Epoch)
	w.Took("change.view")
	switch {
	case !nd.Acts:
		nd.Enter(position)
		nd.begin(true)
		nd.wake()
	case w.Mishap(nd.Draw, 100) && (w.Environment.Partitioned == nil || !w.Settled && nd.Draw.Chance(200)):
		w.Took("change.crash-in-switch")
		nd.Crash(nd.Draw.Below(nd.Log.Syncing+1), []int{0, 500, 1000}[nd.Draw.Below(3)])
		nd.Enter(position)
		nd.After(nd.Draw.Between(0, w.Environment.Retry), nd.Restart)
	default:
		nd.handOver(position)
	}
	return true
}

// handOver ends the protocols of one view and starts those of the next, as the runtime does: what was done reaches the
// disk, what is answered with that is answered, and the operations that are left go on.
func (nd *Node) handOver(position int) {
	w := nd.World
	done := nd.persist(len(nd.Log.Entries))
	nd.release(done)
	nd.cut = []int{0, 500, 1000}[nd.Draw.Below(3)] // of the messages on their way
	if w.Environment.Steady {
		nd.cut = 0
	}
	var unfinished []protocol.Request
	for _, s := range nd.Shards {
		if s.Protocol != nil {
			unfinished = append(unfinished, s.Protocol.Unfinished()...)
		}
	}
	for i := range unfinished {
		nd.judgeUnfinished(&unfinished[i])
	}
	nd.Enter(position)
	nd.dropMessages()
	left := nd.Asked
	nd.Asked = map[uint64]asked{}
	if nd.begin(true); w.Err != nil {
		return
	}
	if !nd.Acts {
		w.Took("change.removed")
		for _, r := range unfinished {
			if left[r.Handle].barrier != nil {
				continue // the whole is answered
			}
			result := register.Result{Status: register.Unavailable, Message: "this member was removed"}
			if r.Resume != nil { // others may know of it
				result.Status = register.Unknown
			}
			nd.respond(left[r.Handle], result)
		}
		nd.carryBarriers(0)
		nd.wake()
		return
	}
	now := nd.Clock.Read(w.Now)
	goOn := make([][]protocol.Request, len(nd.Running()))
	for _, r := range unfinished {
		i := nd.place(r.Operation.Key)
		goOn[i] = append(goOn[i], r)
	}
	for i, requests := range goOn {
		if len(requests) > 0 {
			nd.tell(nd.Shards[i], now) // once, as in the runtime: all of them come in one turn
		}
		for _, r := range requests {
			who, ok := left[r.Handle]
			if !ok {
				w.Fail("member %d goes on with operation %d, which is not in progress", nd.Index+1, r.Handle)
				return
			}
			delete(left, r.Handle)
			if who.barrier != nil {
				continue // the whole begins anew
			}
			who.goesOn, who.known, who.floor = true, who.known || r.Resume != nil, 0
			nd.Asked[r.Handle] = who
			w.Took("change.resumed")
			nd.Shards[i].Protocol.Submit(r)
		}
		nd.flush(i)
	}
	if len(left) > 0 {
		w.Fail("member %d takes on a view, and %d operations in progress are neither answered nor go on", nd.Index+1, len(left))
	}
	if len(nd.barriers) > 0 {
		nd.carryBarriers(now)
		nd.flushAll()
	}
	nd.wake()
}

// dropMessages leaves in the inbox what clients asked: messages of the view before count no more.
func (nd *Node) dropMessages() {
	nd.takeWaiting()
	kept := nd.Inbox[:0]
	for _, in := range nd.Inbox {
		if in.Message == nil {
			kept = append(kept, in)
		}
	}
	clear(nd.Inbox[len(kept):])
	nd.Inbox = kept
}

// wake sees to it that what waits in the inbox is handled: turns of the process before are void.
func (nd *Node) wake() {
	nd.armed = false
	if len(nd.Inbox) > 0 && !nd.Paused && !nd.Down {
		nd.work()
	}
}
