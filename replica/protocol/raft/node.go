package raft

import (
	"cmp"
	"fmt"

	lib "go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol/bounds"
	"github.com/georegister/georegister/replica/view"
)

// Bounds of the library's traffic.
const (
	appendBytes   = 1 << 20 // of the entries of one message
	appendsFlying = 256     // messages to a follower that it has not answered
	proposedBytes = 64 << 20
)

// never is how many ticks the library may wait before an election: elections are called for here, by a clock and draws
// that replay. Its own are drawn from the machine.
const never = 1 << 30

// silent is a logger of one node that says nothing. What the library takes for impossible stops the member.
type silent struct{}

// impossible is what the library said of it.
type impossible string

func (silent) Debug(...any)              {}
func (silent) Debugf(string, ...any)     {}
func (silent) Info(...any)               {}
func (silent) Infof(string, ...any)      {}
func (silent) Warning(...any)            {}
func (silent) Warningf(string, ...any)   {}
func (silent) Error(...any)              {}
func (silent) Errorf(string, ...any)     {}
func (silent) Fatal(v ...any)            { panic(impossible(fmt.Sprint(v...))) }
func (silent) Fatalf(f string, v ...any) { panic(impossible(fmt.Sprintf(f, v...))) }
func (silent) Panic(v ...any)            { panic(impossible(fmt.Sprint(v...))) }
func (silent) Panicf(f string, v ...any) { panic(impossible(fmt.Sprintf(f, v...))) }

// stopped makes what the library takes for impossible a fault of this member.
func (p *Protocol) stopped() {
	switch what := recover().(type) {
	case nil:
	case impossible:
		p.Fault("the library stopped: %s", string(what))
	default:
		panic(what)
	}
}

// restart begins a node on the log, as after a crash: what it had counted is forgotten, and it follows.
func (p *Protocol) restart() {
	if p.Err() == nil {
		p.node = p.newNode(p.log, p.applied.Index)
	}
	if p.Err() != nil {
		p.node = p.newNode(lib.NewMemoryStorage(), 0) // nobody hears of it: the member stops
	}
	p.led(0)
}

func (p *Protocol) newNode(log lib.Storage, applied uint64) *lib.RawNode {
	defer p.stopped() // a log on disk may contradict itself
	node, err := lib.NewRawNode(&lib.Config{
		ID: uint64(p.Config.Self), ElectionTick: never, HeartbeatTick: 1, Storage: log, Applied: applied,
		MaxSizePerMsg: appendBytes, MaxInflightMsgs: appendsFlying,
		MaxUncommittedEntriesSize: uint64(cmp.Or(p.Config.Tuning.Uncommitted, proposedBytes)), PreVote: true,
		DisableProposalForwarding: true, Logger: silent{},
	})
	if err != nil {
		p.Fault("start a node: %w", err)
	}
	return node
}

// counts reports whether answers of others count for this member now.
func (p *Protocol) counts() bool { return p.node.BasicStatus().RaftState != lib.StateFollower }

// step hands over a message of another member's node. What comes before the first tick is answered after it.
func (p *Protocol) step(from view.MemberID, m *peerv1.Message) {
	r := &raftpb.Message{}
	err := proto.Unmarshal(m.Raft, r)
	if err == nil {
		err = p.check(r)
	}
	if err != nil {
		p.Refuse(from, fmt.Errorf("a message of the library is refused: %w", err))
		return
	}
	if view.MemberID(r.GetFrom()) != from || r.GetTo() != uint64(p.Config.Self) {
		return
	}
	switch r.GetType() {
	case raftpb.MsgAppResp, raftpb.MsgVoteResp, raftpb.MsgPreVoteResp, raftpb.MsgHeartbeatResp:
		if !p.knowsMe(m) {
			return // it answers the disk that this one replaced
		}
	case raftpb.MsgPreVote:
		if from != p.elect.lead && p.elect.content() { // a leader that asks leads no more
			p.Took(pathContent)
			return
		}
	case raftpb.MsgSnap:
		p.follow(from, r)
		p.behindLog(from, r)
		return
	case raftpb.MsgApp, raftpb.MsgVote, raftpb.MsgHeartbeat:
	default:
		return
	}
	defer p.stopped()
	if err := p.node.Step(r); err != nil {
		return // of someone who is no member, or too late
	}
	p.follow(from, r)
}

// check reports a message of the library that no sound member sends: with a number after which no term or entry could
// follow, with entries that do not follow each other, or with a commit of what is not in the log here: a leader tells
// nobody of more than what it has acknowledged.
func (p *Protocol) check(r *raftpb.Message) error {
	if last := p.log.last(); r.GetType() == raftpb.MsgHeartbeat && r.GetCommit() > last {
		return fmt.Errorf("a leader tells of a commit up to entry %d, and the log here ends with %d", r.GetCommit(), last)
	}
	last := r.GetSnapshot().GetMetadata()
	most := max(r.GetTerm(), r.GetLogTerm(), r.GetIndex(), r.GetCommit(), r.GetRejectHint(),
		last.GetIndex(), last.GetTerm())
	before, term := r.GetIndex(), uint64(0)
	for _, e := range r.GetEntries() {
		most = max(most, e.GetTerm(), e.GetIndex())
		if before++; r.GetType() == raftpb.MsgApp &&
			(e.GetIndex() != before || e.GetTerm() < term || e.GetTerm() > r.GetTerm()) {
			return fmt.Errorf("entry %d of term %d does not follow the one before it, in a message of term %d",
				e.GetIndex(), e.GetTerm(), r.GetTerm())
		}
		term = e.GetTerm()
	}
	return bounds.Numbers("a message of the library", most)
}

// knowsMe reports whether a message was sent by someone who knows this member's disk.
func (p *Protocol) knowsMe(m *peerv1.Message) bool {
	return p.Incarnations.KnownTo(m.Known, p.Config.Self)
}

// drain does what the node asks for, until it asks for nothing.
func (p *Protocol) drain() {
	defer p.stopped()
	for p.Err() == nil {
		p.hand()
		if !p.node.HasReady() {
			break
		}
		p.handle(p.node.Ready())
	}
	if p.Err() == nil {
		p.log.compact()
	}
}

// handle puts into the journal what must be there, in its order, and lets go what tells of it. The node's own
// acknowledgements count at once: what is said because of them waits for the disk.
func (p *Protocol) handle(rd lib.Ready) {
	if s := rd.SoftState; s != nil {
		p.led(view.MemberID(s.Lead))
	}
	if h := rd.HardState; !lib.IsEmptyHardState(h) {
		p.log.promise(h.GetTerm(), h.GetVote(), h.GetCommit())
	}
	p.log.append(rd.Entries)
	p.appended(rd.Entries)
	p.apply(rd.CommittedEntries)
	p.onReadStates(rd.ReadStates)
	for _, m := range rd.Messages {
		p.emit(m)
	}
	p.node.Advance(rd)
}

// emit sends a message of the node. What promises something leaves when that is durable; so does what tells of a commit
// that counts this member, until this member holds it.
func (p *Protocol) emit(r *raftpb.Message) {
	raw, err := proto.Marshal(r)
	if err != nil {
		p.Fault("encode a message: %w", err)
		return
	}
	m := p.Message(peerv1.Kind_RAFT, 0)
	m.Raft = raw
	to, told := view.MemberID(r.GetTo()), r.GetCommit()
	switch r.GetType() {
	case raftpb.MsgSnap:
		told = r.GetSnapshot().GetMetadata().GetIndex()
	case raftpb.MsgApp, raftpb.MsgHeartbeat, raftpb.MsgHeartbeatResp, raftpb.MsgPreVote:
	case raftpb.MsgVoteResp:
		if !r.GetReject() {
			p.elect.wait()
		}
		p.SendDurably(to, m)
		return
	default:
		p.SendDurably(to, m)
		return
	}
	p.SendWhen(told <= p.durable(), to, m)
}

// led notes who leads; 0 is nobody.
func (p *Protocol) led(lead view.MemberID) {
	if p.elect.lead == lead {
		return
	}
	p.elect.lead = lead
	self := p.elect.leads()
	p.reads = reads{batches: map[uint64][]reader{}, last: p.reads.last}
	p.proposals = nil
	p.handAgain()
	p.extension.Led(self)
	if self {
		p.Took(pathElected)
		p.elect.reign()
		if !p.extended && p.Config.View.Joint() && p.applied.Epoch < p.Config.View.Epoch {
			p.propose(nil) // all of earlier epochs is before this entry
		}
	}
}

// propose appends commands to the log, if this member leads.
func (p *Protocol) propose(commands []*peerv1.RaftCommand) bool {
	return p.proposeEntry(&peerv1.RaftEntry{Epoch: p.Config.View.Epoch, Commands: commands})
}

func (p *Protocol) proposeEntry(entry *peerv1.RaftEntry) bool {
	return p.node.Propose(p.Encode(entry, "an entry", nil)) == nil
}
