package cluster

import (
	"slices"
	"time"

	"github.com/georegister/georegister/replica/simulator/clients"
	"github.com/georegister/georegister/replica/simulator/coverage"
	"github.com/georegister/georegister/replica/simulator/faults"
	"github.com/georegister/georegister/replica/simulator/kernel"
	"github.com/georegister/georegister/replica/simulator/network"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/intake"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/simulator/check"
	"github.com/georegister/georegister/replica/simulator/machine"
	"github.com/georegister/georegister/replica/view"
)

// Node is one member's process and machine.
type Node struct {
	World  *Cluster
	Index  int
	Site   int // its position in the network
	Config protocol.Config
	Draw   kernel.Stream
	Shards []*shard

	// The machine, which survives the process.
	Boots uint32
	Log   machine.Log
	Clock machine.Clock

	// The process. Events of an earlier process carry a lower life and are void.
	life     uint32
	cut      int // how many of 1000 messages of earlier processes are lost
	Down     bool
	Inbox    []Input
	armed    bool // a turn is scheduled
	timers   timers
	Paused   bool
	Since    time.Duration    // when it was paused last
	Slow     *faults.Injected // nil: it is as fast as ever
	Rotten   bool             // its disk is damaged, which the next process will find
	Older    bool             // its disk was put back from an older copy that lacks batches, and was not wiped since
	Acted    uint32           // the last boot in which a process came to believe its disk
	Used     uint32           // that one of the disk before it was put back; 0: it was not
	PutBack  bool             // one of its disks was put back from an older copy
	misreads bool             // its disk has given other fragments than it has
	trusted  bool             // it has voted on a disk that was put back
	Lost     bool             // its disk was lost, and it does not vote again yet; or it is gone

	disk  string // the name of the present one
	named int    // which that is of those it has had
	Disks int    // how many it has had
	Held  int    // the view on its disk, by its position in those that the manager made; none
	Acts  bool   // it is in that view: it has protocols
	Born  bool   // its process was started
	Gone  bool   // and never starts again

	Witness *witness        // nil: it is a member
	heard   []time.Duration // by node, when it last heard it; of worlds with masters

	handle uint64
	Asked  map[uint64]asked // by handle; ranged over for what needs no order alone

	barriers []*barrier // as they began
}

// timers are a node's own events, made once: they happen again and again.
type timers struct{ ticked, turn, synced func() }

// shard is a part of the keys with a protocol of its own.
type shard struct {
	Disk      *machine.Disk
	journal   *protocol.Journal
	Protocol  protocol.Protocol        // nil: the node is in no view
	holder    check.Holder             // of its disk
	doubted   bool                     // it asks others what is known of its disk
	started   protocol.Instant         // by the node's clock
	vouching  []view.MemberID          // and these have answered this process
	questions []question               // for fragments, of this turn
	fetched   *peerv1.Message          // nothing but this answer came in this turn; nil: something else did
	spreads   check.Spreads            // of Gryff-RSC
	ticked    protocol.Instant         // when the process was told the time last
	elections elections                // of Raft
	notes     notes                    // of how far others' disks are
	known     known                    // of that, by what it has heard
	fetching  fetching                 // others' states
	told      protocol.Change          // what it has said of its part in a change, and that was held against its disk
	leased    protocol.Instant         // a lease that was held against what was promised for it
	heard     map[view.MemberID]*heard // witnesses, by this process; never ranged over
	empty     bool                     // it began on an empty disk
	answered  map[string]uint64        // entries that reads were answered with, by key (reads.go); never ranged over
	behind    behind
	looks     looks
	syncs     map[syncTold]saying  // of a master that does not serve yet, to backups; never ranged over
	updates   map[uint64]*complete // by the numbers of questions about them
	completed []*complete          // of these, in this turn
	waiting   intake.Queue[Input]  // for records that are not in memory
	warm      map[string]bool      // records that are; never ranged over
	before    uint64               // batches of the disk, when faults ended, or a process started after that
}

// Input is what waits for a node's next turn: a message, or a client's attempt.
type Input struct {
	from    view.MemberID
	Message *peerv1.Message
	client  *clients.Client
	attempt uint32
	behind  *barrier       // whose operation goes on; nil: it has not waited for one
	cause   coverage.Event // of Message: what its sender had done last
}

func newNode(w *Cluster, index, site int) *Node {
	nd := &Node{World: w, Index: index, Site: site, Draw: w.Draws(kernel.ForNode, uint64(index)), Down: true, Disks: 1, Held: None}
	nd.Boots = w.Environment.Starts
	nd.timers = timers{nd.ticked, nd.turn, nd.synced}
	nd.Config = protocol.Config{
		Self:      view.MemberID(index + 1),
		Functions: w.functions,
		Limits:    register.DefaultLimits(),
		Seed:      w.Seed*31 + uint64(index),
		Count:     w.Count,
		Tuning:    w.Environment.Tuning,
	}
	nd.Config.Retry, nd.Config.Suspect = w.Environment.Unpaced()
	for range w.Environment.Shards {
		nd.Shards = append(nd.Shards, &shard{Disk: machine.NewDisk()})
	}
	return nd
}

// Boot starts the process on the node's disk.
func (nd *Node) Boot() {
	w := nd.World
	nd.Down, nd.Paused, nd.armed, nd.Slow = false, false, false, nil
	nd.Inbox = nil
	for _, s := range nd.Shards {
		s.waiting, s.warm = intake.Queue[Input]{}, nil
	}
	nd.Asked, nd.barriers = map[uint64]asked{}, nil
	if nd.Rotten {
		w.Took("rot")
		nd.Wipe()
	}
	shown, ppm := w.Now, 0
	if w.Environment.Skewed {
		shown, ppm = nd.Draw.Between(0, time.Hour), nd.Draw.Below(401)-200
	}
	nd.Clock.Set(w.Now, shown, ppm)
	if nd.Witness != nil {
		nd.life++
		w.Diagram.Note(nd.Index, "starts, boot %d", nd.Boots)
		nd.Witness.start()
		return
	}
	nd.begin(false)
}

// begin starts the protocols of the view that the node holds, if it is in one; continued, others of this process had
// the journals before.
func (nd *Node) begin(continued bool) {
	w := nd.World
	if continued {
		w.Coverage.Took(nd.Index, "goes on")
	} else {
		w.Coverage.Took(nd.Index, "starts")
	}
	nd.life++
	nd.Boots++
	if w.Settled {
		w.NoteBatches()
	}
	if w.Environment.Shuffled {
		nd.shuffle()
	}
	nd.Config.Boot = nd.Boots
	nd.Config.Nonce = uint64(nd.Index)<<32 | uint64(uint32(nd.life)*0x9e3779b1) // in no order
	nd.Config.Bootstrap, nd.Config.Undoubted = nd.founded(), !w.Environment.Doubtful
	w.Diagram.Note(nd.Index, "starts, boot %d", nd.Boots)
	if !nd.Acts {
		for _, s := range nd.Shards {
			s.Protocol = nil
		}
		return
	}
	vouched, promised := nd.vouched(continued), nd.promised(continued)
	if w.Environment.Partitioned != nil {
		nd.divide()
	}
	for i, s := range nd.Running() {
		s.journal = protocol.NewJournal(s.Disk)
		nd.Config.Continued = s.vouched(continued) || w.Environment.Partitioned != nil && vouched
		start := func(config protocol.Config, journal *protocol.Journal) (protocol.Protocol, error) {
			if w.Environment.Partitioned != nil {
				return nd.startPart(i, config, journal, promised)
			}
			return w.starts(config, journal)
		}
		if !continued {
			nd.holdDamage(i, start)
		}
		p, err := start(nd.Config, s.journal)
		if err != nil {
			w.Fail("member %d does not start: %w", nd.Index+1, err)
			return
		}
		s.Protocol, s.told, s.doubted, s.vouching, s.questions = p, protocol.Change{}, p.Doubted(), nil, nil
		s.started, s.empty = nd.Clock.Read(w.Now), Batches(s.Disk.Records) == 0 && !nd.Config.Bootstrap
		s.elections, s.notes, s.heard, s.behind, s.looks = elections{}, nd.notesOf(s), nil, behind{}, looks{}
		s.known, s.fetching = nd.knownOf(s), fetching{}
		s.spreads, s.answered = check.Spreads{}, nil
		s.syncs, s.updates, s.completed = nil, nil, nil
		nd.tell(s, s.started)
		nd.flush(i)
	}
	nd.After(nd.Draw.Between(0, w.Environment.Retry/4), nd.timers.ticked)
}

// shuffle changes whom the next process takes for near. The last one keeps what it was told.
func (nd *Node) shuffle() {
	near := slices.Clone(nd.Config.Nearest)
	for i := len(near) - 1; i > 0; i-- {
		j := nd.Draw.Below(i + 1)
		near[i], near[j] = near[j], near[i]
	}
	nd.Config.Nearest = near
}

// Crash stops the process; what was not durable is lost. Of the batches that an fsync was writing, the first
// intact ones reached the disk. Of the messages on their way, cut in 1000 had not left the machine.
func (nd *Node) Crash(intact, cut int) {
	if nd.Down {
		return
	}
	nd.World.Diagram.Happened("%d crashes", nd.Index+1)
	nd.stop(intact, cut)
}

func (nd *Node) stop(intact, cut int) {
	w := nd.World
	w.Coverage.Took(nd.Index, "stops")
	nd.Down, nd.Paused = true, false
	nd.cut = cut
	nd.life++
	if nd.Witness != nil {
		nd.Witness.crash(intact)
	}
	for _, e := range nd.Log.Crash(intact) {
		if w.judged() {
			w.invariants.Survives(nd.speaker(e.Shard), e.Batch)
		}
		nd.Shards[e.Shard].Disk.Apply(e.Batch)
	}
	for _, c := range w.Clients.All {
		c.Reset(nd.Index)
	}
}

// After has something happen at the node later, unless its process has ended by then.
func (nd *Node) After(wait time.Duration, do func()) {
	nd.World.AfterIn(&nd.life, wait, do)
}

func (nd *Node) Restart() {
	if nd.Down && nd.Born && !nd.Gone {
		nd.Boot()
	}
}

func (nd *Node) Resume() {
	if nd.Paused {
		nd.Paused = false
		nd.World.Diagram.Note(nd.Index, "goes on")
		if nd.World.Environment.ClockStops {
			nd.Clock.Set(nd.World.Now, time.Duration(nd.Clock.Read(nd.Since)), nd.Clock.Ppm)
		}
		if len(nd.Inbox) > 0 {
			nd.work()
		}
	}
}

// Input adds to the inbox, and sees to it that a turn comes.
func (nd *Node) Input(in Input) {
	nd.Inbox = append(nd.Inbox, in)
	if nd.Paused || nd.armed {
		return
	}
	wait := time.Duration(0)
	if nd.Slow != nil {
		wait = nd.Draw.Between(0, nd.Slow.Size)
		nd.Slow.Touch(nd.World.Busy)
	} else if nd.World.Environment.Gather > 0 && !(in.Message != nil && network.AboutDisks(in.Message)) && nd.Draw.Chance(250) {
		wait = nd.Draw.Between(0, nd.World.Environment.Gather)
	}
	if wait == 0 {
		nd.work()
		return
	}
	nd.armed = true
	nd.After(wait, nd.timers.turn)
}

func (nd *Node) turn() {
	nd.armed = false
	if !nd.Paused {
		nd.work()
	}
}

// work is one turn: everything that has arrived, then what it asks for.
func (nd *Node) work() {
	now := nd.Clock.Read(nd.World.Now)
	for i := range nd.Inbox {
		in := &nd.Inbox[i]
		if nd.keeps(in) {
			continue
		}
		nd.World.Coverage.Handles(in.cause)
		if in.Message != nil {
			nd.World.Diagram.Delivered(int(in.from)-1, nd.Index, in.Message)
			if nd.Witness != nil {
				nd.Witness.receive(in)
				continue
			}
			if shards := nd.Running(); nd.Acts && int(in.Message.Shard) < len(shards) {
				if nd.World.Environment.Partitioned != nil {
					nd.tell(shards[in.Message.Shard], now) // leases are judged by it
				}
				nd.noteVouching(shards[in.Message.Shard], in)
				nd.noteQuestion(shards[in.Message.Shard], in)
				nd.noteHeard(shards[in.Message.Shard], in)
				nd.noteWitnessed(shards[in.Message.Shard], in, now)
				nd.noteUpdates(shards[in.Message.Shard], in)
				nd.receive(shards[in.Message.Shard], in)
			}
			continue
		}
		nd.submit(in, now)
	}
	clear(nd.Inbox)
	nd.Inbox = nd.Inbox[:0]
	nd.World.Coverage.Handled()
	nd.flushAll()
}

// ticked is the timer. A paused process finds it due when it goes on.
func (nd *Node) ticked() {
	w := nd.World
	nd.After(w.Environment.Retry/4, nd.timers.ticked)
	if nd.Paused || !nd.Acts {
		return
	}
	now := nd.Clock.Read(w.Now)
	for i, s := range nd.Running() {
		if nd.Down {
			return // it has lost its disk
		}
		nd.tell(s, now)
		nd.flush(i)
		if !nd.Down {
			nd.holdWait(s)
			nd.holdTold(s, now)
			nd.holdLooks(i, s)
		}
	}
}

// trueTimeError is how far a member's reading of the true time may be from it.
const trueTimeError = 7 * time.Millisecond

// tell tells a shard's protocol the time.
func (nd *Node) tell(s *shard, now protocol.Instant) {
	s.ticked = now
	nd.tick(s.Protocol, now)
}

// tick tells a protocol the time, and its pace if that changes.
func (nd *Node) tick(p protocol.Protocol, now protocol.Instant) {
	if w := nd.World; w.Environment.Paced {
		p.Pace(w.Environment.Pace(w.Draws, nd.Index, time.Duration(now)))
	}
	if timed, ok := p.(protocol.Timed); ok {
		moment := nd.World.Now
		timed.TrueTime(protocol.Interval{Earliest: int64(moment - trueTimeError), Latest: int64(moment + trueTimeError)})
	}
	p.Tick(now)
}

// noteVoting notes that a member votes again.
func (nd *Node) noteVoting() {
	nd.noteActed()
	if nd.Lost && !nd.Gone && nd.Voter() {
		nd.trusted = nd.trusted || nd.Older || nd.Boots <= nd.Used
		nd.Lost = false
		nd.World.Diagram.Note(nd.Index, "votes again")
	}
}

// Voter reports whether the node votes, and will after a crash.
func (nd *Node) Voter() bool {
	if nd.Down || !nd.Acts || nd.World.Environment.Partitioned != nil && !nd.founded() {
		return false
	}
	for _, s := range nd.Running() {
		if v, ok := s.Protocol.(protocol.Joiner); ok && !(v.Voter() && s.journal.Clean()) {
			return false
		}
		if s.Protocol != nil && s.Protocol.Doubted() {
			return false
		}
	}
	return true
}

// pending is how many operations and instances the node's protocols hold.
func (nd *Node) pending() int {
	total := 0
	for _, s := range nd.Running() {
		if s.Protocol != nil && !nd.Down && nd.Acts {
			total += s.Protocol.Pending()
		}
	}
	return total
}

// ShardOf places a key.
func ShardOf(key string, shards int) int {
	return view.Shard(register.Hash([]byte(key)), shards, shards)
}
