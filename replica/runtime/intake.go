package runtime

import (
	"strings"

	"github.com/georegister/georegister/replica/intake"
	"github.com/georegister/georegister/replica/protocol"
)

// waiting are a shard's inputs whose records are not in memory: the disk is read beside the loop.
type waiting struct {
	fetcher protocol.Fetcher // nil: all records are in memory
	queue   intake.Queue[input]
	missing []string // to be fetched at the end of the step
	key     []byte   // scratch
}

// input is a request, or a message.
type input struct {
	request request
	message received // its message is nil: it is a request
}

// keepsRequest has a request wait if a record that it reads is not in memory. What an earlier view began goes on at
// once, as protocol.Resume says.
func (s *shard) keepsRequest(q *request) bool {
	if s.waiting.fetcher == nil || q.resume != nil || q.operation.Key == "" {
		return false
	}
	s.waiting.key = append(s.waiting.key[:0], q.operation.Key...)
	kinds := s.keyed.RecordsOf(q.operation.Kind)
	record := s.waiting.queue.Missing(kinds, s.waiting.key, s.known)
	if record != nil {
		s.keep(record, kinds, input{request: *q})
	}
	return record != nil
}

// keepsMessage has a message wait if a record that it reads is not in memory.
func (s *shard) keepsMessage(m *received) bool {
	if s.waiting.fetcher == nil || len(m.message.Key) == 0 {
		return false
	}
	kinds := s.keyed.RecordsFor(m.message)
	record := s.waiting.queue.Missing(kinds, m.message.Key, s.known)
	if record != nil {
		s.keep(record, kinds, input{message: *m})
	}
	return record != nil
}

// known reports whether a record is in memory: of the disk, or in a batch that is not durable yet.
func (s *shard) known(record []byte) bool {
	return !s.journal.Durable(record) || s.waiting.fetcher.Known(record)
}

// keep has an input wait for a record. The others that it reads, of these kinds, are fetched with that one: it would
// wait once more for each.
func (s *shard) keep(record []byte, kinds string, in input) {
	if !s.waiting.queue.Keep(record, in) {
		return
	}
	s.waiting.missing = append(s.waiting.missing, string(record))
	for i := strings.IndexByte(kinds, record[0]) + 1; i < len(kinds); i++ {
		if record[0] = kinds[i]; !s.known(record) {
			s.waiting.missing = append(s.waiting.missing, string(record))
		}
	}
}

// fetch has the records be read that inputs have begun to wait for.
func (s *shard) fetch() {
	if len(s.waiting.missing) > 0 {
		s.replica.metrics.fetched.Add(float64(len(s.waiting.missing)))
		s.waiting.fetcher.Fetch(s.waiting.missing, s.signal)
		s.waiting.missing = s.waiting.missing[:0]
	}
	s.state.waiting.Store(int64(s.waiting.queue.Len()))
}

// collect returns the inputs whose records were fetched.
func (s *shard) collect() (in inputs) {
	if s.waiting.queue.Len() == 0 {
		return in
	}
	for _, record := range s.waiting.fetcher.Collect() {
		for _, i := range s.waiting.queue.Take(record) {
			if i.message.message == nil {
				in.requests = append(in.requests, i.request)
			} else {
				in.messages = append(in.messages, i.message)
			}
		}
	}
	return in
}

// forsake returns the requests that wait for records. The protocol has not heard of them.
func (s *shard) forsake() (all []request) {
	for _, i := range s.waiting.queue.TakeAll() {
		if i.message.message == nil {
			delete(s.inFlight, i.request.handle)
			all = append(all, i.request)
		}
	}
	return all
}
