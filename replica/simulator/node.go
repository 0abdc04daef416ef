package simulator

import (
	"errors"
	"slices"
	"time"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/simulator/kernel"
	"github.com/georegister/georegister/replica/simulator/machine"
	"github.com/georegister/georegister/replica/view"
)

// node is one member's process and machine.
type node struct {
	world  *world
	index  int
	site   int // its position in the network
	config protocol.Config
	draw   kernel.Stream
	shards []*shard

	// The machine, which survives the process.
	boots uint32
	log   machine.Log
	clock machine.Clock

	// The process. Events of an earlier process carry a lower life and are void.
	life    uint32
	cut     int // how many of 1000 messages of earlier processes are lost
	down    bool
	inbox   []input
	armed   bool // a turn is scheduled
	paused  bool
	since   time.Duration // when it was paused last
	slow    *fault
	rotten  bool   // its disk is damaged, which the next process will find
	older   bool   // its disk was put back from an older copy that lacks batches, and was not wiped since
	acted   uint32 // the last boot in which a process came to believe its disk
	used    uint32 // that one of the disk before it was put back; 0: it was not
	trusted bool   // it has voted on a disk that was put back
	lost    bool   // its disk was lost, and it does not vote again yet; or it is gone

	disks int  // how many it has had
	held  int  // the view on its disk, by its position in those that the manager made; none
	acts  bool // it is in that view: it has protocols
	born  bool // its process was started
	gone  bool // and never starts again

	witness *witness        // nil: it is a member
	heard   []time.Duration // by node, when it last heard it; of worlds with masters

	handle uint64
	asked  map[uint64]asked // by handle; never ranged over

	barriers []*barrier // as they began
}

// shard is a part of the keys with a protocol of its own.
type shard struct {
	disk     *machine.Disk
	journal  *protocol.Journal
	protocol protocol.Protocol // nil: the node is in no view
}

// input is what waits for a node's next turn: a message, or a client's attempt.
type input struct {
	from    view.MemberID
	message *peerv1.Message
	client  *client
	attempt uint32
	behind  *barrier // whose operation goes on; nil: it has not waited for one
}

// asked is whom a completion is for.
type asked struct {
	client  *client
	attempt uint32
	barrier *barrier // which waits for it; nil: the client does
	shard   int      // of what the barrier waits for
	waited  int      // round trips of what the client's operation waited for before it came to its shard
}

func newNode(w *world, index, site int) *node {
	nd := &node{world: w, index: index, site: site, draw: w.Draws(kernel.ForNode, uint64(index)), down: true, disks: 1, held: none}
	nd.config = protocol.Config{
		Self:      view.MemberID(index + 1),
		Functions: w.functions,
		Limits:    register.DefaultLimits(),
		Retry:     w.env.Retry,
		Suspect:   w.env.Suspect,
		Seed:      w.Seed*31 + uint64(index),
		Count:     w.Count,
	}
	for range w.env.Shards {
		nd.shards = append(nd.shards, &shard{disk: machine.NewDisk()})
	}
	return nd
}

// boot starts the process on the node's disk.
func (nd *node) boot() {
	w := nd.world
	nd.down, nd.paused, nd.armed, nd.slow = false, false, false, nil
	nd.inbox = nil
	nd.asked, nd.barriers = map[uint64]asked{}, nil
	if nd.rotten {
		w.Took("rot")
		nd.wipe()
	}
	shown, ppm := w.Now, 0
	if w.env.Skewed {
		shown, ppm = nd.draw.Between(0, time.Hour), nd.draw.Below(401)-200
	}
	nd.clock.Set(w.Now, shown, ppm)
	if nd.witness != nil {
		nd.life++
		w.trace.Note(nd.index, "starts, boot %d", nd.boots)
		nd.witness.start()
		return
	}
	nd.begin(false)
}

// begin starts the protocols of the view that the node holds, if it is in one; continued, others of this process had
// the journals before.
func (nd *node) begin(continued bool) {
	w := nd.world
	nd.life++
	nd.boots++
	if w.env.Shuffled {
		nd.shuffle()
	}
	nd.config.Boot = nd.boots
	nd.config.Nonce = uint64(nd.index)<<32 | uint64(uint32(nd.life)*0x9e3779b1) // in no order
	nd.config.Bootstrap, nd.config.Undoubted = nd.founded(), !w.env.Doubtful
	w.trace.Note(nd.index, "starts, boot %d", nd.boots)
	if !nd.acts {
		for _, s := range nd.shards {
			s.protocol = nil
		}
		return
	}
	vouched, promised := nd.vouched(continued), nd.promised(continued)
	if w.env.Partitioned != nil {
		nd.divide()
	}
	for i, s := range nd.running() {
		s.journal = protocol.NewJournal(s.disk)
		nd.config.Continued = s.vouched(continued) || w.env.Partitioned != nil && vouched
		var p protocol.Protocol
		var err error
		if w.env.Partitioned != nil {
			p, err = nd.startPart(i, s.journal, promised)
		} else {
			p, err = w.start(nd.config, s.journal)
		}
		if err != nil {
			w.Fail("member %d does not start: %w", nd.index+1, err)
			return
		}
		s.protocol = p
		p.Tick(nd.clock.Read(w.Now))
		nd.flush(i)
	}
	nd.after(nd.draw.Between(0, w.env.Retry/4), nd.ticked)
}

// shuffle changes whom the next process takes for near. The last one keeps what it was told.
func (nd *node) shuffle() {
	near := slices.Clone(nd.config.Nearest)
	for i := len(near) - 1; i > 0; i-- {
		j := nd.draw.Below(i + 1)
		near[i], near[j] = near[j], near[i]
	}
	nd.config.Nearest = near
}

// crash stops the process; what was not durable is lost. Of the batches that an fsync was writing, the first
// intact ones reached the disk. Of the messages on their way, cut in 1000 had not left the machine.
func (nd *node) crash(intact, cut int) {
	nd.world.trace.Happened("%d crashes", nd.index+1)
	nd.stop(intact, cut)
}

func (nd *node) stop(intact, cut int) {
	w := nd.world
	nd.down, nd.paused = true, false
	nd.cut = cut
	nd.life++
	if nd.witness != nil {
		nd.witness.crash(intact)
	}
	for _, e := range nd.log.Crash(intact) {
		nd.shards[e.Shard].disk.Apply(e.Batch)
	}
	for _, c := range w.clients {
		c.reset(nd)
	}
}

// after has something happen at the node later, unless its process has ended by then.
func (nd *node) after(wait time.Duration, do func()) {
	life := nd.life
	nd.world.After(wait, func() {
		if nd.life == life {
			do()
		}
	})
}

func (nd *node) restart() {
	if nd.down && nd.born && !nd.gone {
		nd.boot()
	}
}

func (nd *node) resume() {
	if nd.paused {
		nd.paused = false
		nd.world.trace.Note(nd.index, "goes on")
		if nd.world.env.ClockStops {
			nd.clock.Set(nd.world.Now, time.Duration(nd.clock.Read(nd.since)), nd.clock.Ppm)
		}
		if len(nd.inbox) > 0 {
			nd.work()
		}
	}
}

// input adds to the inbox, and sees to it that a turn comes.
func (nd *node) input(in input) {
	nd.inbox = append(nd.inbox, in)
	if nd.paused || nd.armed {
		return
	}
	wait := time.Duration(0)
	if nd.slow != nil {
		wait = nd.draw.Between(0, nd.slow.Size)
		nd.slow.touch(nd.world)
	} else if nd.world.env.Gather > 0 && !(in.message != nil && aside(in.message)) && nd.draw.Chance(250) {
		wait = nd.draw.Between(0, nd.world.env.Gather)
	}
	if wait == 0 {
		nd.work()
		return
	}
	nd.armed = true
	nd.after(wait, nd.turn)
}

func (nd *node) turn() {
	nd.armed = false
	if !nd.paused {
		nd.work()
	}
}

// work is one turn: everything that has arrived, then what it asks for.
func (nd *node) work() {
	now := nd.clock.Read(nd.world.Now)
	for i := range nd.inbox {
		in := &nd.inbox[i]
		if in.message != nil {
			nd.world.trace.Delivered(int(in.from)-1, nd.index, in.message)
			if nd.witness != nil {
				nd.witness.receive(in)
				continue
			}
			if shards := nd.running(); nd.acts && int(in.message.Shard) < len(shards) {
				if nd.world.env.Partitioned != nil {
					shards[in.message.Shard].protocol.Tick(now) // leases are judged by it
				}
				shards[in.message.Shard].protocol.Receive(in.from, in.message)
			}
			continue
		}
		nd.submit(in, now)
	}
	clear(nd.inbox)
	nd.inbox = nd.inbox[:0]
	nd.flushAll()
}

func (nd *node) submit(in *input, now protocol.Instant) {
	if in.client.attempt != in.attempt && in.behind == nil {
		return // the client has given up meanwhile, and its connection is gone
	}
	who := asked{client: in.client, attempt: in.attempt}
	if !nd.acts {
		nd.world.respond(nd, who, register.Result{Status: register.Unavailable, Message: "no member"})
		return
	}
	if b := in.behind; b != nil {
		who.waited = b.RoundTrips()
		nd.hand(b.Operation(), who, b.deadline, now)
		return
	}
	deadline := protocol.Instant(0)
	if d := nd.world.env.Deadline; d > 0 && !nd.world.Settled { // then clients wait for ever, and so must the protocol
		deadline = now.Add(d)
	}
	op := in.client.operation
	if op.Kind == register.Fence || len(op.After) > 0 {
		nd.submitAfter(op, who, deadline, now)
		return
	}
	nd.hand(op, who, deadline, now)
}

// ticked is the timer. A paused process finds it due when it goes on.
func (nd *node) ticked() {
	w := nd.world
	nd.after(w.env.Retry/4, nd.ticked)
	if nd.paused || !nd.acts {
		return
	}
	now := nd.clock.Read(w.Now)
	for i, s := range nd.running() {
		if nd.down {
			return // it has lost its disk
		}
		s.protocol.Tick(now)
		nd.flush(i)
	}
}

func (nd *node) flushAll() {
	if nd.witness != nil {
		nd.witness.flush()
	}
	if nd.acts {
		for i := range nd.running() {
			nd.flush(i)
		}
	}
}

// flush does what a shard's protocol asks for.
func (nd *node) flush(index int) {
	w, s := nd.world, nd.shards[index]
	if nd.down {
		return // it has lost its disk
	}
	e := s.protocol.Ready()
	if why := (*protocol.Forgotten)(nil); errors.As(e.Fault, &why) {
		nd.forgot(why)
		return
	}
	if e.Fault != nil {
		w.Fail("member %d can't go on: %w", nd.index+1, e.Fault)
		return
	}
	for _, r := range e.Refused {
		w.Fail("member %d does not believe what %d sent, and nobody lies: %w", nd.index+1, r.From, r.Why)
	}
	w.send(nd, index, e.Send)
	nd.complete(e.Complete)
	switch {
	case e.Persist.Sequence != 0:
		nd.log.Entries = append(nd.log.Entries, machine.Entry{Shard: index, Batch: e.Persist, Send: e.SendAfterPersist, Complete: e.CompleteAfterPersist})
		nd.sync()
	case len(nd.log.Entries) == 0:
		w.send(nd, index, e.SendAfterPersist)
		nd.complete(e.CompleteAfterPersist)
	case len(e.SendAfterPersist)+len(e.CompleteAfterPersist) > 0:
		nd.log.Entries = append(nd.log.Entries, machine.Entry{Shard: index, Send: e.SendAfterPersist, Complete: e.CompleteAfterPersist})
	}
	nd.found()
	if w.env.Partitioned != nil {
		nd.inspect(s)
	}
}

// sync starts an fsync of all entries unless one is in flight.
func (nd *node) sync() {
	if nd.log.Syncing > 0 || len(nd.log.Entries) == 0 {
		return
	}
	nd.log.Syncing = len(nd.log.Entries)
	d := nd.world.env.Disks[nd.site]
	nd.after(nd.draw.Between(d.Low, d.High), nd.synced)
}

// synced makes durable what the fsync in flight covered.
func (nd *node) synced() {
	if nd.paused { // the disk is done, but the process does not hear of it yet
		nd.after(time.Millisecond, nd.synced)
		return
	}
	if nd.witness != nil {
		nd.witness.synced()
		return
	}
	done := nd.persist(nd.log.Syncing)
	nd.sync()
	nd.release(done)
	if len(nd.log.Entries) == 0 { // then its memory is free for the next ones
		clear(done)
		nd.log.Entries = done[:0]
	}
}

// persist makes the first entries of the log durable.
func (nd *node) persist(count int) []machine.Entry {
	done := nd.log.Entries[:count]
	nd.log.Entries = nd.log.Entries[count:]
	nd.log.Syncing = 0
	for i := range done {
		if e := &done[i]; e.Batch.Sequence != 0 {
			s := nd.shards[e.Shard]
			s.disk.Apply(e.Batch)
			s.journal.Persisted(e.Batch.Sequence)
		}
	}
	nd.world.trace.Note(nd.index, "durable: %d batches", len(done))
	return done
}

// release lets go what waited for entries.
func (nd *node) release(done []machine.Entry) {
	w := nd.world
	for i := range done {
		w.send(nd, done[i].Shard, done[i].Send)
		nd.complete(done[i].Complete)
	}
	nd.found()
}

// found notes that a member votes again.
func (nd *node) found() {
	nd.noteActed()
	if nd.lost && !nd.gone && nd.voter() {
		nd.trusted = nd.trusted || nd.older || nd.boots <= nd.used
		nd.lost = false
		nd.world.trace.Note(nd.index, "votes again")
	}
}

// complete answers clients. A completion of an unknown handle, or a second one, must not happen.
func (nd *node) complete(completions []protocol.Completion) {
	for i := range completions {
		c := &completions[i]
		who, ok := nd.asked[c.Handle]
		if !ok {
			nd.world.Fail("member %d completes operation %d, which is not in progress", nd.index+1, c.Handle)
			return
		}
		delete(nd.asked, c.Handle)
		if who.barrier != nil {
			nd.fenced(who.barrier, who.shard, c.Result)
			continue
		}
		nd.world.respond(nd, who, c.Result.Behind(who.waited))
	}
}

// voter reports whether the node votes, and will after a crash.
func (nd *node) voter() bool {
	if nd.down || !nd.acts || nd.world.env.Partitioned != nil && !nd.founded() {
		return false
	}
	for _, s := range nd.running() {
		if v, ok := s.protocol.(protocol.Joiner); ok && !(v.Voter() && s.journal.Clean()) {
			return false
		}
		if s.protocol != nil && s.protocol.Doubted() {
			return false
		}
	}
	return true
}

// pending is how many operations and instances the node's protocols hold.
func (nd *node) pending() int {
	total := 0
	for _, s := range nd.running() {
		if s.protocol != nil && !nd.down && nd.acts {
			total += s.protocol.Pending()
		}
	}
	return total
}

// shardOf places a key.
func shardOf(key string, shards int) int {
	return view.Shard(register.Hash([]byte(key)), shards, shards)
}
