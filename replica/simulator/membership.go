package simulator

import (
	"fmt"
	"strconv"

	"github.com/georegister/georegister/replica/membership"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// transferKey is where member.Member keeps how far a transfer is.
const transferKey = "mt"

// none stands for the position of no view.
const none = -1

// disk names the node's present disk.
func (nd *node) disk() string { return diskName(nd.config.Self, nd.disks) }

func diskName(id view.MemberID, number int) string {
	return "disk-" + strconv.Itoa(int(id)) + "-" + strconv.Itoa(number)
}

// founded reports that an empty disk of the node votes: the view names it.
func (nd *node) founded() bool {
	i := nd.config.View.Index(nd.config.Self)
	return i >= 0 && nd.config.View.Members[i].Disk == nd.disk()
}

// enter makes a view the one that the next process runs in. It is on the disk from now on.
func (nd *node) enter(position int) {
	m := nd.world.manager
	v := view.View{}
	if position != none {
		v = m.views[position].View
	}
	if v.Epoch > 0 && len(v.Partitions) < len(nd.config.View.Partitions) {
		nd.world.Took("curp.split.forgotten")
	}
	nd.held, nd.acts = position, v.Index(nd.config.Self) >= 0
	nd.config.View, nd.config.Nearest = v, nil
	for _, site := range append([]int{nd.site}, nd.world.env.Network.Nearest(nd.site)...) {
		for _, other := range v.Members {
			if other.ID != nd.config.Self && nd.world.nodes[other.ID-1].site == site {
				nd.config.Nearest = append(nd.config.Nearest, other.ID)
			}
		}
	}
	m.noteHeld(position)
}

// forget is what a lost disk does to the view that the node holds: it has the one of its boot file, the cluster's first
// one, or none until the manager tells it one.
func (nd *node) forget() {
	m := nd.world.manager
	switch {
	case len(m.views) > 1 && (m.draw.Chance(500) || m.views[0].Index(nd.config.Self) < 0):
		nd.enter(none)
	case nd.acts:
		nd.enter(0)
	}
}

// name is the node's, for people.
func (nd *node) name() string { return fmt.Sprintf("member %d", nd.config.Self) }

// transferring reports whether the node keeps a record of a state transfer.
func (nd *node) transferring() bool {
	for _, s := range nd.shards {
		if m, ok := s.protocol.(protocol.Joiner); ok && m.Change().Records > 0 {
			return true
		}
		if _, ok := s.disk.Records[transferKey]; ok {
			return true
		}
	}
	return false
}

// learn gives a running process a view. It takes it on, and reports that, if it is newer than its own.
func (nd *node) learn(position int) bool {
	w := nd.world
	if nd.down || nd.paused {
		return false
	}
	v := w.manager.views[position].View
	if v.Epoch <= nd.config.View.Epoch || v.Index(nd.config.Self) < 0 && nd.config.Self > v.LastIssued() {
		return false
	}
	w.trace.Note(nd.index, "takes on the view of epoch %d", v.Epoch)
	w.Took("change.view")
	switch {
	case !nd.acts:
		nd.enter(position)
		nd.begin(true)
		nd.wake()
	case nd.draw.Chance(100) && (w.env.Partitioned == nil || !w.Settled && nd.draw.Chance(200)):
		w.Took("change.crash-in-switch")
		nd.crash(nd.draw.Below(nd.log.Syncing+1), []int{0, 500, 1000}[nd.draw.Below(3)])
		nd.enter(position)
		nd.after(nd.draw.Between(0, w.env.Retry), nd.restart)
	default:
		nd.handOver(position)
	}
	return true
}

// handOver ends the protocols of one view and starts those of the next, as the runtime does: what was done reaches the
// disk, what is answered with that is answered, and the operations that are left go on.
func (nd *node) handOver(position int) {
	w := nd.world
	done := nd.persist(len(nd.log.Entries))
	nd.release(done)
	nd.cut = []int{0, 500, 1000}[nd.draw.Below(3)] // of the messages on their way
	var unfinished [][]protocol.Request
	for _, s := range nd.shards {
		var requests []protocol.Request
		if s.protocol != nil {
			requests = s.protocol.Unfinished()
		}
		unfinished = append(unfinished, requests)
	}
	nd.enter(position)
	nd.dropMessages()
	left := nd.asked
	nd.asked = map[uint64]asked{}
	if nd.begin(true); w.Err != nil {
		return
	}
	if !nd.acts {
		w.Took("change.removed")
		for _, requests := range unfinished {
			for _, r := range requests {
				if left[r.Handle].barrier != nil {
					continue // the whole is answered
				}
				result := register.Result{Status: register.Unavailable, Message: "this member was removed"}
				if r.Resume != nil { // others may know of it
					result.Status = register.Unknown
				}
				w.respond(nd, left[r.Handle], result)
			}
		}
		nd.carryBarriers(0)
		nd.wake()
		return
	}
	now := nd.clock.Read(w.Now)
	goOn := make([][]protocol.Request, len(nd.running()))
	for _, requests := range unfinished {
		for _, r := range requests {
			i := nd.place(r.Operation.Key)
			goOn[i] = append(goOn[i], r)
		}
	}
	for i, requests := range goOn {
		for _, r := range requests {
			who, ok := left[r.Handle]
			if !ok {
				w.Fail("member %d goes on with operation %d, which is not in progress", nd.index+1, r.Handle)
				return
			}
			delete(left, r.Handle)
			if who.barrier != nil {
				continue // the whole begins anew
			}
			nd.asked[r.Handle] = who
			w.Took("change.resumed")
			nd.shards[i].protocol.Tick(now)
			nd.shards[i].protocol.Submit(r)
		}
		nd.flush(i)
	}
	if len(left) > 0 {
		w.Fail("member %d takes on a view, and %d operations in progress are neither answered nor go on", nd.index+1, len(left))
	}
	if len(nd.barriers) > 0 {
		nd.carryBarriers(now)
		nd.flushAll()
	}
	nd.wake()
}

// dropMessages leaves in the inbox what clients asked: messages of the view before count no more.
func (nd *node) dropMessages() {
	kept := nd.inbox[:0]
	for _, in := range nd.inbox {
		if in.message == nil {
			kept = append(kept, in)
		}
	}
	clear(nd.inbox[len(kept):])
	nd.inbox = kept
}

// wake sees to it that what waits in the inbox is handled: turns of the process before are void.
func (nd *node) wake() {
	nd.armed = false
	if len(nd.inbox) > 0 && !nd.paused && !nd.down {
		nd.work()
	}
}

// answer is what the node says of itself in a change.
func (nd *node) answer() membership.MemberReport {
	if nd.held == none {
		return membership.MemberReport{Member: nd.config.Self}
	}
	s := membership.MemberReport{Member: nd.config.Self, Digest: nd.world.manager.views[nd.held].digest, Settled: true, Fetched: true}
	for _, shard := range nd.shards {
		if m, ok := shard.protocol.(protocol.Joiner); ok {
			c := m.Change()
			s.Settled = s.Settled && c.Settled
			s.Fetched = s.Fetched && c.Fetched
		}
	}
	return s
}
