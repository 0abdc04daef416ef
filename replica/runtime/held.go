package runtime

import "github.com/georegister/georegister/replica/protocol"

// held is what leaves once a batch, and so all before it, is durable.
type held struct {
	sequence uint64
	send     []protocol.Envelope
	complete []protocol.Completion
}

// persistedUpTo is told by the committer. Where nothing waits for a batch, such as at a member that has executed what
// others were asked to vote on, the loop hears of it in its next turn, whatever that is for.
func (s *shard) persistedUpTo(sequence uint64) {
	s.persisted.Store(sequence)
	if s.awaits.Load() {
		s.signal()
	}
}

// await has the committer wake the loop if something waits for a batch. What it told of before it knew that is looked
// at here.
func (s *shard) await() {
	waits := len(s.held) > 0
	if s.awaits.Load() != waits {
		s.awaits.Store(waits)
	}
	if waits && s.persisted.Load() >= s.held[0].sequence {
		s.signal()
	}
}

// release lets go what waited for a batch.
func (s *shard) release(durable uint64) {
	if durable > s.durable {
		s.durable = durable
		s.journal.Persisted(durable)
	}
	n := 0
	for n < len(s.held) && s.held[n].sequence <= s.durable {
		s.gather(s.held[n].send)
		s.finish(s.held[n].complete)
		n++
	}
	if n > 0 {
		rest := copy(s.held, s.held[n:])
		clear(s.held[rest:])
		s.held = s.held[:rest]
		s.flush()
	}
}
