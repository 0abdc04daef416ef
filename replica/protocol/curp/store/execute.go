package store

import (
	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol/stamp"
	"github.com/georegister/georegister/replica/register"
)

// Execute runs a request at a master, once: it makes an entry of the log, which changes the state and remembers the
// answer. It returns nil for a duplicate. A replayed request is one that a witness had saved.
func (s *Store) Execute(r *peerv1.Request, replayed bool) (*peerv1.LogEntry, *peerv1.Answer) {
	c := r.Command
	if s.Recall(c) != nil {
		return nil, nil
	}
	e := s.nextEntry()
	e.Key, e.Session, e.Number = r.Key, c.Session, c.Number
	answer := s.run(e, r)
	s.remember(e, c, answer, replayed)
	s.extend(e)
	return e, answer
}

// nextEntry begins the entry that a master puts behind the log.
func (s *Store) nextEntry() *peerv1.LogEntry {
	return &peerv1.LogEntry{Term: s.term, Index: s.Last() + 1}
}

// extend puts an entry of this master behind the log.
func (s *Store) extend(e *peerv1.LogEntry) {
	s.Expect(e)
	s.Append(e)
}

// run is what the request does to its register. The carstamps are for checkers: the order of the log.
func (s *Store) run(e *peerv1.LogEntry, r *peerv1.Request) *peerv1.Answer {
	c := r.Command
	if c.Function == "" {
		s.assign(e, r.Key, stamp.Value(r.Present, r.Value))
		return &peerv1.Answer{Timestamp: e.Index}
	}
	current := s.load(s.newest, r.Key)
	call := register.Call{Function: c.Function, Args: c.Args, MaxValueBytes: int(c.MaxValueBytes)}
	out, err := s.config.Functions.Apply(current.Value, call)
	if err != nil {
		s.outbox.Fault("execute an rmw: %w", err)
		return &peerv1.Answer{Refused: err.Error()}
	}
	a := &peerv1.Answer{Present: out.Reply.Present(), Value: out.Reply, Refused: out.Refused}
	switch {
	case out.Refused != "":
		a.Timestamp = current.Carstamp.Timestamp
		if !current.Value.Present() {
			a.Timestamp = e.Index
		}
	case out.Changed:
		s.assign(e, r.Key, out.Next)
		a.Timestamp = e.Index
	}
	return a
}

func (s *Store) assign(e *peerv1.LogEntry, key []byte, v register.Value) {
	if !v.Present() {
		s.remove(e, registerKey(key))
		return
	}
	s.set(e, registerKey(key), &peerv1.RegisterRecord{Timestamp: e.Index, Present: true, Value: v})
}

// load is the register of a key in a version of the state. An absent one has no carstamp.
func (s *Store) load(records func([]byte) ([]byte, bool), key []byte) register.Versioned {
	raw, ok := records(registerKey(key))
	if !ok {
		return register.Versioned{}
	}
	var record peerv1.RegisterRecord
	if err := decode(&record, raw); err != nil {
		s.outbox.Damaged(key, err)
		return register.Versioned{}
	}
	return stamp.OfRecord(&record)
}

// Read is the register as a reader is told of it: at a master as it has executed the log, at others as they have
// applied it. An absent value has the place in the log at which it was found absent.
func (s *Store) Read(key []byte, at uint64) *peerv1.Answer {
	return answerOf(s.load(s.newest, key), at)
}

// ReadApplied is Read of the state that is on disk, which no failure takes back.
func (s *Store) ReadApplied(key []byte, at uint64) *peerv1.Answer {
	return answerOf(s.load(s.outbox.Journal.Get, key), at)
}

func answerOf(v register.Versioned, at uint64) *peerv1.Answer {
	if v.Value.Present() {
		at = v.Carstamp.Timestamp
	}
	return &peerv1.Answer{Present: v.Value.Present(), Value: v.Value, Timestamp: at}
}

// ReadUnapplied is the register with what waits applied, of which no reader may be told: it is for a mistake.
func (s *Store) ReadUnapplied(key []byte) *peerv1.Answer {
	found := s.Read(key, s.Own.Applied)
	name := string(registerKey(key))
	for _, e := range s.Behind(s.Own.Applied) {
		for _, r := range e.Records {
			var record peerv1.RegisterRecord
			if string(r.Key) == name && record.UnmarshalVT(r.Value) == nil {
				found = &peerv1.Answer{Present: true, Value: stamp.Value(true, record.Value), Timestamp: record.Timestamp}
			}
		}
		for _, deleted := range e.Deleted {
			if string(deleted) == name {
				found = &peerv1.Answer{Timestamp: e.Index}
			}
		}
	}
	return found
}
