package curpraft

import (
	"bytes"
	"encoding/binary"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/raft"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
	"github.com/georegister/georegister/witness/cache"
)

// recordPrefix begins the journal's keys of what the witness holds: author and number of a command. The record is the
// term in which it was accepted, and the command.
const recordPrefix = raft.ExtensionRecord

// witness is the part of a member that saves commands for their clients. All that it holds was accepted in one term:
// that of the last leader whose recovery is in this member's state. The recovery has made what it held before
// superfluous.
type witness struct {
	life  uint64
	cache *cache.Cache
	round protocol.Instant // when the next round of gc counts
}

func recordKey(id cache.ID) []byte {
	key := binary.BigEndian.AppendUint64([]byte{recordPrefix}, id.Session)
	return binary.BigEndian.AppendUint64(key, id.Number)
}

// idOf tells a command from all others.
func idOf(c *peerv1.RaftCommand) cache.ID { return cache.ID{Session: c.Author, Number: c.Number} }

// loadWitness restores what the journal holds.
func (p *Protocol) loadWitness(slots int) {
	w := &p.witness
	w.life = p.raft.Applied().Served
	var err error
	if w.cache, err = cache.New(slots, &cache.Budget{}, true); err != nil {
		p.raft.Fault("make a witness: %w", err)
		return
	}
	var stale [][]byte
	for key, raw := range p.raft.Journal.Kind([]byte{recordPrefix}) {
		c := &peerv1.RaftCommand{}
		if len(raw) < 8 || c.UnmarshalVT(raw[8:]) != nil {
			p.raft.Fault("a witness's record on disk is damaged")
			break
		}
		if binary.BigEndian.Uint64(raw) != w.life {
			stale = append(stale, bytes.Clone(key))
			continue
		}
		if outcome := w.cache.Restore(idOf(c), register.Hash(c.Key), raw[8:], 0); outcome != cache.Accepted {
			p.raft.Fault("a witness's records on disk contradict each other")
		}
	}
	for _, key := range stale {
		p.raft.Journal.Delete(key)
	}
}

// accept saves a command, and reports whether it is safe here once the journal is durable: it commutes with all that is
// held, and is of this member's term. A member that has gone to a later term, as those that tell a new leader what they
// hold have, accepts nothing of earlier ones any more; nor of its own before the leader's recovery is in its state.
func (p *Protocol) accept(term uint64, c *peerv1.RaftCommand, raw []byte) bool {
	switch w := &p.witness; {
	case len(raw) > cache.MaxRequest:
		return false
	case w.life != term, p.raft.Term() != term:
		p.raft.Took(pathOtherTerm)
		return false
	case p.raft.Over(c.Author, c.Number):
		return true // it is committed
	case w.cache.Save(idOf(c), register.Hash(c.Key), raw, cache.ID{}) != cache.Accepted:
		p.raft.Took(pathRejected)
		return false
	}
	p.raft.Journal.Put(recordKey(idOf(c)), append(binary.BigEndian.AppendUint64(nil, p.witness.life), raw...))
	return true
}

// onRecord saves a command for another member's client.
func (p *Protocol) onRecord(from view.MemberID, m *peerv1.Message) {
	c := &peerv1.RaftCommand{}
	if c.UnmarshalVT(m.Raft) != nil || !p.accept(m.Timestamp, c, m.Raft) {
		return // the client hears of its command when it is committed
	}
	p.raft.SendDurably(from, p.message(peerv1.Kind_RECORD_REPLY, m.Op, m.Timestamp))
}

// drop forgets a command.
func (p *Protocol) drop(c *peerv1.RaftCommand) {
	if id := idOf(c); p.witness.cache.Drop(register.Hash(c.Key), id) {
		p.raft.Journal.Delete(recordKey(id))
	}
}

// beginLife forgets everything: the recovery of that term has it, and is committed.
func (p *Protocol) beginLife(term uint64) {
	if p.witness.life == term {
		return
	}
	for _, c := range p.held() {
		p.drop(c)
	}
	p.witness.life = term
}

// saved is what the witness holds, as a leader that recovers is told.
func (p *Protocol) saved() *peerv1.RaftSaved {
	return &peerv1.RaftSaved{Term: p.witness.life, Commands: p.held()}
}

// held lists the commands that the witness holds.
func (p *Protocol) held() []*peerv1.RaftCommand {
	var commands []*peerv1.RaftCommand
	for _, element := range p.witness.cache.Order() {
		commands = append(commands, p.decode(p.witness.cache.At(element).Request))
	}
	return commands
}

func (p *Protocol) decode(raw []byte) *peerv1.RaftCommand {
	c := &peerv1.RaftCommand{}
	if err := c.UnmarshalVT(raw); err != nil {
		p.raft.Fault("a witness's record is damaged: %w", err)
	}
	return c
}

// tickWitness gives commands to the leader that were in the way of others for long: their clients may never have
// reached it. Once they are executed, their records go. A client that still waits gets its answer; for any other one
// the outcome is unknown.
func (p *Protocol) tickWitness() {
	w := &p.witness
	if p.raft.Now < w.round {
		return
	}
	w.round = p.raft.Now.Add(p.raft.Config.Retry)
	w.cache.AddRound()
	if p.raft.Leader() == 0 {
		return
	}
	var suspects []*peerv1.RaftCommand
	w.cache.TakeSuspects(func(s cache.Saved) bool {
		suspects = append(suspects, p.decode(s.Request))
		return true
	})
	if len(suspects) > 0 {
		p.raft.Took(pathSuspect)
		p.raft.Hand(p.withoutAcks(suspects))
	}
}

// withoutAcks makes commands that are executed in any order. What a client acknowledged in one of them may be told to
// be over before it was executed.
func (p *Protocol) withoutAcks(commands []*peerv1.RaftCommand) []*peerv1.RaftCommand {
	for _, c := range commands {
		c.FirstIncomplete = 0
		if c.Rmw != nil {
			c.Rmw.FirstIncomplete = 0
		}
	}
	return commands
}
