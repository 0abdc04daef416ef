package cluster

import (
	"fmt"
	"slices"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/simulator/check"
	"github.com/georegister/georegister/replica/simulator/invariant"
	"github.com/georegister/georegister/replica/view"
)

// judged reports whether what members do is held against invariants: in schedules of protocols without partitions,
// whose masters have rules of their own.
func (w *Cluster) judged() bool { return w.Environment.Sealed && w.Environment.Partitioned == nil }

func (nd *Node) speaker(shard int) invariant.Speaker {
	w := nd.World
	return invariant.Speaker{
		ID: nd.Config.Self, Shard: shard, View: &nd.Config.View, Disk: nd.Disk(), Losses: w.Environment.Losses,
		Tolerance: w.Environment.Tolerance, Boot: nd.Boots, Now: w.Now, Retry: w.Environment.LeastRetry(),
		Intact: w.intact(),
	}
}

// noteLeaving notes a message that leaves.
func (w *Cluster) noteLeaving(from *Node, shard int, e *protocol.Envelope) {
	if w.judged() && !(from.misreads && e.Message.Kind == peerv1.Kind_FRAGMENT_FETCHED) {
		w.invariants.Leaves(from.speaker(shard), e.Message, w.holders(shard))
	}
}

// receive gives a message to a shard's protocol, and holds what the member has of the records of a page against it.
func (nd *Node) receive(s *shard, in *Input) {
	w, m := nd.World, in.Message
	if !w.judged() {
		s.Protocol.Receive(in.from, m)
		return
	}
	who := nd.speaker(int(m.Shard))
	w.invariants.Hears(who, in.from, m)
	nd.notePage(s, in.from, m)
	if m.Kind == peerv1.Kind_FRAGMENT_FETCHED && len(nd.Inbox) == 1 {
		s.fetched = m
	}
	if m.Epoch == nd.Config.View.Epoch {
		s.spreads.Hears(in.from, m)
	}
	if m.Kind == peerv1.Kind_GUS_WRITE {
		record := append([]byte{'u'}, m.Key...)
		before, _ := s.journal.Get(record)
		s.Protocol.Receive(in.from, m)
		after, _ := s.journal.Get(record)
		w.invariants.Takes(who, m, before, after)
		return
	}
	joins, ok := s.Protocol.(protocol.Joiner)
	page := m.GetTransfer().GetRecords()
	if m.Kind != peerv1.Kind_TRANSFER_PAGE || !ok || len(page) == 0 {
		s.Protocol.Receive(in.from, m)
		return
	}
	before := make([][]byte, len(page))
	for i, record := range page {
		before[i], _ = s.journal.Get(record.Key)
	}
	had := joins.Change()
	s.Protocol.Receive(in.from, m)
	has := joins.Change()
	if has.Records == had.Records {
		return // nobody waits for it
	}
	for i, record := range page {
		w.invariants.Adopts(who, record, before[i], s.journal.Get)
	}
	if has.Records > 0 {
		nd.holdProgress(m.Transfer, had, has)
	}
}

// holdProgress holds it that what a member says of its progress grows with each page by what that one has.
func (nd *Node) holdProgress(page *peerv1.Transfer, had, has protocol.Change) {
	var size uint64
	for _, r := range page.Records {
		size += uint64(len(r.Key) + len(r.Value))
	}
	if has.Records-had.Records != uint64(len(page.Records)) || has.Bytes-had.Bytes != size ||
		has.SameBytes < had.SameBytes || has.SameBytes-had.SameBytes > page.Compared {
		nd.World.Breaches(fmt.Errorf("member %d says that it has fetched %d records of %d bytes, and %d bytes that "+
			"were the same, after a page of %d of %d and at most %d; before: %d of %d, and %d", nd.Index+1, has.Records,
			has.Bytes, has.SameBytes, len(page.Records), size, page.Compared, had.Records, had.Bytes, had.SameBytes))
	}
}

// holdSaying holds what is about to be sent against what the node has: at once, or when its journal is durable.
func (nd *Node) holdSaying(shard int, e *protocol.Effects) {
	w, s := nd.World, nd.Shards[shard]
	if !w.judged() {
		return
	}
	who := nd.speaker(shard)
	w.invariants.Turns(who, e, s.journal.Get)
	nd.holdQuestions(s, e)
	nd.holdRebuilding(s, e)
	if m := s.fetched; m != nil && slices.ContainsFunc(e.Send, func(e protocol.Envelope) bool {
		return e.Message.Kind == peerv1.Kind_GUS_READ
	}) {
		w.invariants.BeginsAnew(who, m, s.journal.Get)
	}
	s.fetched = nil
	h := nd.holder(shard)
	w.Breaches(w.logs.Speculates(h, e.Send, s.journal.Get, w.Now, w.Environment.LeastRetry()))
	w.Breaches(w.logs.Turns(h, func() *check.Turn { return nd.turnOf(s, e) }))
	nd.holdElection(s, e)
	nd.holdFetching(s, e)
	nd.holdSpreads(s, e)
	disk, journal := invariant.ByInstance(s.Disk.Get), invariant.ByInstance(s.journal.Get)
	for i := range e.Send {
		w.invariants.Says(who, e.Send[i].To, e.Send[i].Message, disk)
		w.invariants.SaysDecided(who, e.Send[i].Message, s.Disk.Get)
	}
	for i := range e.SendAfterPersist {
		m := e.SendAfterPersist[i].Message
		w.invariants.Says(who, e.SendAfterPersist[i].To, m, journal)
		w.invariants.Tells(who, m, disk, journal)
		w.invariants.SaysDecided(who, m, s.Disk.Get)
	}
}

// holdSpreads holds what a member of Gryff-RSC writes back and carries against what it knows to be held. What a disk
// has answered that was lost since does not count.
func (nd *Node) holdSpreads(s *shard, e *protocol.Effects) {
	w := nd.World
	lost := func(o *Node) bool { return o.Disks > 1 || o.Used != 0 }
	if !w.Environment.Regular || slices.ContainsFunc(w.Nodes, lost) {
		return
	}
	var found []check.Found
	for _, completions := range [][]protocol.Completion{e.Complete, e.CompleteAfterPersist} {
		for _, c := range completions {
			if who := nd.Asked[c.Handle]; c.Result.Depends {
				found = append(found, check.Found{
					Key: who.key, Carstamp: c.Result.Carstamp, Deadline: who.deadline, Others: nd.readsPlainly(who.key),
				})
			}
		}
	}
	if err := s.spreads.Turns(found, s.ticked, e.Send, e.SendAfterPersist); err != nil {
		w.Breaches(fmt.Errorf("member %d %w", nd.Index+1, err))
	}
}

// readsPlainly reports whether a read of a key that is not regular is in progress.
func (nd *Node) readsPlainly(key string) bool {
	for _, who := range nd.Asked { // order is irrelevant: any will do
		if who.plain && who.key == key {
			return true
		}
	}
	return false
}

// question is one for a fragment that a member hears, by its number there.
type question struct {
	from view.MemberID
	op   uint64
}

// noteQuestion notes a question for a fragment that a member hears which votes. Of who asks on another disk than its
// first it may have heard by then that this one is lost, too.
func (nd *Node) noteQuestion(s *shard, in *Input) {
	w, m := nd.World, in.Message
	if m.Kind != peerv1.Kind_FRAGMENT_FETCH || !w.judged() || m.Epoch != nd.Config.View.Epoch ||
		w.Nodes[in.from-1].Disks > 1 {
		return
	}
	if v, ok := s.Protocol.(protocol.Joiner); ok && v.Voter() && !s.Protocol.Doubted() {
		s.questions = append(s.questions, question{in.from, m.Op})
	}
}

// holdQuestions holds it that each question for a fragment is answered in the same turn, also by who has none, and waits
// for one: others wait for so many answers.
func (nd *Node) holdQuestions(s *shard, e *protocol.Effects) {
	for _, q := range s.questions {
		answers := func(a protocol.Envelope) bool {
			return a.To == q.from && a.Message.Op == q.op && a.Message.Kind == peerv1.Kind_FRAGMENT_FETCHED
		}
		if !slices.ContainsFunc(e.Send, answers) && !slices.ContainsFunc(e.SendAfterPersist, answers) {
			nd.World.Breaches(fmt.Errorf("member %d does not tell member %d whether it has a fragment", nd.Index+1,
				q.from))
		}
	}
	s.questions = s.questions[:0]
}

// holdRebuilding holds it that a member which does not vote asks for no fragment without saying that it rebuilds its
// own: it does nothing else.
func (nd *Node) holdRebuilding(s *shard, e *protocol.Effects) {
	if v, ok := s.Protocol.(protocol.Joiner); !ok || v.Voter() {
		return
	}
	for i := range e.Send {
		if m := e.Send[i].Message; m.Kind == peerv1.Kind_FRAGMENT_FETCH && !m.Fragment.GetRebuilding() {
			nd.World.Breaches(fmt.Errorf("member %d does not vote, and asks for a fragment of key %q without saying "+
				"that it rebuilds its own", nd.Index+1, m.Key))
		}
	}
}

// holdBatch holds what becomes durable against what was.
func (nd *Node) holdBatch(shard int, b protocol.Batch) {
	if w := nd.World; w.judged() {
		w.invariants.Persists(nd.speaker(shard), w.holders(shard), b)
	}
}

// holdChange holds what a member would say of its part in a change, if it were asked now, against its disk: a process
// that starts from that has done as much. What is fetched may be unfinished until all of it is here, and what was
// fetched from a disk that was lost since counts for a process that knew of it in time alone.
func (nd *Node) holdChange(s *shard) {
	w := nd.World
	if !w.judged() || !nd.Config.View.Joint() || s.told.Settled && (s.told.Fetched || !s.told.Transfers) {
		return
	}
	member, ok := s.Protocol.(protocol.Joiner)
	if !ok {
		return
	}
	says := member.Change()
	says.Settled = says.Settled && (says.Fetched || !says.Transfers)
	if says.Settled == s.told.Settled && says.Fetched == s.told.Fetched {
		return
	}
	s.told = says
	if says.Settled {
		w.Breaches(w.logs.Settles(nd.holder(slices.Index(nd.Shards, s))))
	}
	config := nd.Config
	config.Continued, config.Count = true, nil
	journal := protocol.NewJournal(s.Disk)
	p, err := w.starts(config, journal)
	if err != nil {
		w.Fail("member %d does not start from what its disk has: %w", nd.Index+1, err)
		return
	}
	nd.tick(p, nd.Clock.Read(w.Now))
	journal.Persisted(p.Ready().Persist.Sequence)
	has := p.(protocol.Joiner).Change()
	if says.Settled && !has.Settled || says.Fetched && !has.Fetched && w.intact() {
		w.Breaches(fmt.Errorf("member %d says of a change: settled %v, fetched %v; by its disk: settled %v, fetched %v",
			nd.Index+1, says.Settled, says.Fetched, has.Settled, has.Fetched))
	}
}

// intact reports whether no disk was lost, and none put back.
func (w *Cluster) intact() bool {
	return !slices.ContainsFunc(w.Nodes, func(o *Node) bool { return o.Disks > 1 || o.Used != 0 || o.Older })
}

// holdAnswer holds an answer against the disks of the members: what it tells, and what it came after.
func (nd *Node) holdAnswer(who *asked, c *protocol.Completion) {
	w := nd.World
	if !w.judged() || c.Result.Status != register.OK {
		return
	}
	if b := who.barrier; b != nil {
		own := b.Operation() // what it comes after of its very key is left to it
		for _, d := range b.whole.After {
			left := slices.ContainsFunc(own.After, func(o register.Dependency) bool { return o.Key == d.Key })
			if nd.place(d.Key) == who.shard && !left { // the fence is of these
				nd.holdCameAfter(d)
				nd.holdQuorum(d.Key, d.Carstamp)
			}
		}
		return
	}
	if who.client.Attempt != who.attempt {
		return
	}
	op := &who.client.Operation
	if !op.Stale && !(op.Regular && c.Result.Depends) {
		nd.holdQuorum(op.Key, c.Result.Carstamp)
		shard := nd.place(op.Key)
		w.invariants.Chosen(nd.speaker(shard), op.Key, c.Result.Carstamp, w.holders(shard),
			nd.Shards[shard].journal.Get)
	}
	if op.Kind == register.Write || op.Kind == register.RMW {
		nd.holdExecuted(op)
	}
	if op.Kind == register.Write {
		shard := nd.place(op.Key)
		w.invariants.Answered(nd.speaker(shard), op.Key, c.Result.Carstamp, nd.Shards[shard].Disk.Get)
		w.invariants.Marks(nd.speaker(shard), op.Key, c.Result.Carstamp, nd.Shards[shard].journal.Get)
	}
	for _, d := range op.After {
		if !(op.Kind == register.RMW && who.goesOn) { // else a quorum has it, and this member need not be in that
			nd.holdCameAfter(d)
		}
		if !op.Regular || d.Key != op.Key { // what it has found of its own key is what the session depends on next
			nd.holdQuorum(d.Key, d.Carstamp)
		}
	}
}

// holdCameAfter holds it that the node has on its disk what an operation came after that it answers.
func (nd *Node) holdCameAfter(d register.Dependency) {
	shard := nd.place(d.Key)
	nd.World.invariants.CameAfter(nd.speaker(shard), d, nd.Shards[shard].Disk.Get)
}

// holdTrips holds it that an answer tells of no fewer round trips than there were: of an update, one at least, unless
// its member is alone, or it went on from another view.
func (nd *Node) holdTrips(who *asked, c *protocol.Completion) {
	if !nd.World.judged() || who.barrier != nil {
		return // a master may need nobody
	}
	kind, least := who.client.Operation.Kind, 0
	alone := nd.Config.View.Size() == 1
	if c.Result.Status == register.OK && !alone && !who.goesOn && (kind == register.Write || kind == register.RMW) {
		least = 1
	}
	if c.Result.RoundTrips < least {
		nd.World.Breaches(fmt.Errorf("member %d answers %v after %d round trips, and needs others for it", nd.Index+1, kind,
			c.Result.RoundTrips))
	}
}

// holdExecuted holds the answer to a request against the states of its key. One that was lost may have had it, and so
// may one of a process before, which its member has voted for, and executes again.
func (nd *Node) holdExecuted(op *register.Operation) {
	shard := nd.place(op.Key)
	states := []invariant.Records{nd.Shards[shard].journal.Get}
	for _, other := range nd.World.Nodes {
		if other.Lost || other.Disks > 1 {
			return
		}
		s := other.Shards[shard]
		has := invariant.ByInstance(s.Disk.Get)
		if s.journal != nil && !other.Down {
			has = invariant.ByInstance(s.journal.Get)
		}
		if other.Boots > 1 && nd.World.invariants.HasVote(has, []byte(op.Key)) {
			return
		}
		states = append(states, has)
	}
	nd.World.invariants.Executed(nd.speaker(shard), op.Key, op.ID, states...)
}

// holdQuorum holds it that a quorum has a carstamp of a key against the disks. Whose disk was lost since is excused.
func (nd *Node) holdQuorum(key string, c register.Carstamp) {
	shard := nd.place(key)
	nd.World.invariants.Answers(nd.speaker(shard), key, c, nd.World.holders(shard))
}

// holders are the disks of a shard, by member.
func (w *Cluster) holders(shard int) func(view.MemberID) invariant.Holder {
	return func(id view.MemberID) invariant.Holder {
		other := w.Nodes[id-1]
		return invariant.Holder{Excused: other.Lost || other.Gone, Has: invariant.ByInstance(other.Shards[shard].Disk.Get)}
	}
}
