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
	s, kinds, key := nd.reads(in)
	if kinds == "" || len(key) == 0 {
		return false
	}
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

// reads are the kinds of records that an input reads, of which key, and in which shard; no kinds: it reads none.
func (nd *Node) reads(in *Input) (s *shard, kinds string, key []byte) {
	number := 0
	if in.Message != nil {
		number, key = int(in.Message.Shard), in.Message.Key
	} else {
		op := &in.client.Operation
		if in.behind != nil || op.Kind == register.Fence || len(op.After) > 0 {
			return nil, "", nil // it waits for other shards first
		}
		number, key = nd.place(op.Key), []byte(op.Key)
	}
	if number >= len(nd.Running()) {
		return nil, "", nil
	}
	s = nd.Running()[number]
	keyed := protocol.KeyedOf(s.Protocol)
	if in.Message != nil {
		return s, keyed.RecordsFor(in.Message), key
	}
	return s, keyed.RecordsOf(in.client.Operation.Kind), key
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
