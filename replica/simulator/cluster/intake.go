package cluster

import (
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/simulator/kernel"
)

// keeps has an input wait if a record that it reads is not in memory, as the runtime does.
func (nd *Node) keeps(in *Input) bool {
	if nd.World.Environment.Fetches.High == 0 || nd.Witness != nil || !nd.Acts {
		return false
	}
	number, kinds, key := nd.reads(in)
	if number >= len(nd.Running()) || kinds == "" || len(key) == 0 {
		return false
	}
	s := nd.Running()[number]
	record := s.waiting.Missing(kinds, key, func(record []byte) bool {
		return !s.journal.Durable(record) || s.warm[string(record)]
	})
	if record == nil {
		return false
	}
	if s.waiting.Keep(record, *in) {
		nd.fetch(s, string(record))
	}
	return true
}

// reads are the kinds of records that an input reads, of which key, and in which shard.
func (nd *Node) reads(in *Input) (shard int, kinds string, key []byte) {
	if in.Message != nil {
		shard, key = int(in.Message.Shard), in.Message.Key
	} else {
		op := &in.client.Operation
		if in.behind != nil || op.Kind == register.Fence || len(op.After) > 0 {
			return 0, "", nil // it waits for other shards first
		}
		shard, key = nd.place(op.Key), []byte(op.Key)
	}
	if shard >= len(nd.Running()) {
		return shard, "", nil
	}
	keyed, ok := nd.Running()[shard].Protocol.(protocol.Keyed)
	switch {
	case !ok:
		return shard, "", nil
	case in.Message != nil:
		return shard, keyed.RecordsFor(in.Message), key
	default:
		return shard, keyed.RecordsOf(in.client.Operation.Kind), key
	}
}

// fetch brings a record into memory, and now and then has the others be forgotten there.
func (nd *Node) fetch(s *shard, record string) {
	w := nd.World
	w.Took("fetch")
	draw := w.Draws(kernel.ForFetches, uint64(nd.Index)<<32|w.fetched)
	w.fetched++
	nd.After(draw.Between(w.Environment.Fetches.Low, w.Environment.Fetches.High), func() {
		if s.warm == nil || draw.Chance(250) {
			s.warm = map[string]bool{}
		}
		s.warm[record] = true
		for _, in := range s.waiting.Take(record) {
			nd.Input(in)
		}
	})
}

// takeWaiting has what waits for records wait in the inbox: another protocol is to begin.
func (nd *Node) takeWaiting() {
	for _, s := range nd.Running() {
		nd.Inbox = append(nd.Inbox, s.waiting.TakeAll()...)
	}
}
