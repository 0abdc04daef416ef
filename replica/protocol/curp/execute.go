package curp

import (
	"encoding/binary"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol/stamp"
	"github.com/georegister/georegister/replica/register"
)

func beUint64(b []byte) uint64 { return binary.BigEndian.Uint64(b) }

// requestID names a request across retries (RIFL).
type requestID struct{ session, number uint64 }

func idOf(c *peerv1.Command) requestID { return requestID{c.GetSession(), c.GetNumber()} }

// unsynced is a request that was executed and is not held by all backups yet.
type unsynced struct {
	index  uint64
	answer *peerv1.Answer
	// blocked says that it depends on one before it that was not synced either: nobody may be told of it until it is.
	blocked bool
}

// execute runs a request at the master, once: it changes the state, makes an entry of the log, and remembers the
// answer. It returns nil for a duplicate.
func (p *Protocol) execute(r *peerv1.Request, replay bool) *unsynced {
	c := r.Command
	if p.recall(c) != nil {
		return nil
	}
	key := string(r.Key)
	e := &peerv1.LogEntry{Term: p.partition.Term, Index: p.log.last() + 1, Key: r.Key, Session: c.Session, Number: c.Number}
	answer := p.run(e, r)
	p.remember(e, c, answer, replay)
	p.extend(e)
	u := &unsynced{index: e.Index, answer: answer, blocked: p.touched[key] > p.commit}
	p.touched[key] = e.Index
	p.unsynced[idOf(c)] = u
	return u
}

// run is what the request does to its register. The carstamps are for checkers: the order of the log.
func (st *state) run(e *peerv1.LogEntry, r *peerv1.Request) *peerv1.Answer {
	c := r.Command
	if c.Function == "" {
		st.assign(e, r.Key, stamp.Value(r.Present, r.Value))
		return &peerv1.Answer{Timestamp: e.Index}
	}
	current := st.load(r.Key)
	out, err := st.config.Functions.Apply(current.Value, register.Call{Function: c.Function, Args: c.Args, MaxValueBytes: int(c.MaxValueBytes)})
	if err != nil {
		st.outbox.Fault("execute an rmw: %w", err)
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
		st.assign(e, r.Key, out.Next)
		a.Timestamp = e.Index
	}
	return a
}

func (st *state) assign(e *peerv1.LogEntry, key []byte, v register.Value) {
	if !v.Present() {
		st.remove(e, registerKey(key))
		return
	}
	st.set(e, registerKey(key), &peerv1.RegisterRecord{Timestamp: e.Index, Present: true, Value: v})
}

// read is the register as a reader is told of it: an absent value has the place in the log at which it was found
// absent.
func (st *state) read(key []byte, at uint64) *peerv1.Answer {
	v := st.load(key)
	if !v.Value.Present() {
		return &peerv1.Answer{Timestamp: at}
	}
	return &peerv1.Answer{Present: true, Value: v.Value, Timestamp: v.Carstamp.Timestamp}
}

// latest is the register with what waits applied, which is nobody's to tell: for a mistake.
func (st *state) latest(key []byte) *peerv1.Answer {
	found := st.read(key, st.own.Applied)
	name := string(registerKey(key))
	for _, e := range st.log.behind(max(st.own.Applied, st.log.floor)) {
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
