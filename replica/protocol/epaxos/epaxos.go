// Package epaxos is EPaxos (SOSP '13), the baseline that Gryff is compared with: reads, writes and read-modify-writes
// are all commands of package instance, which executes those that interfere in one order everywhere.
//
// A coordinator commits a command after one round trip if nothing interferes, after two otherwise. A read or an rmw is
// answered when it is executed here, that is, when whatever it depends on is committed; a write when it is committed,
// since nothing has to be known for its answer. docs/protocols.md, section EPaxos, says what is durable when, and why.
package epaxos

import (
	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/base"
	"github.com/georegister/georegister/replica/protocol/instance"
	"github.com/georegister/georegister/replica/protocol/member"
	"github.com/georegister/georegister/replica/protocol/quorum"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// lanes bounds the instances of a key that a coordinator has in progress, and so the graph of a hot key: to this many
// for each member. What comes while all are in use goes together into the next one.
const lanes = 8

// Protocol is one member's part of EPaxos, for one shard.
type Protocol struct {
	*base.Base
	commands *instance.Core
}

var _ member.Inner = (*Protocol)(nil)

// Factory makes an EPaxos.
func Factory(config protocol.Config, journal *protocol.Journal, known *quorum.Incarnations) member.Inner {
	b := base.New("epaxos", config, journal, known)
	return &Protocol{Base: b, commands: instance.New(b, instance.Options{Commands: command, Lanes: lanes})}
}

// RecordsOf implements protocol.Keyed.
func (p *Protocol) RecordsOf(register.Kind) string { return instance.StateKind }

// RecordsFor implements protocol.Keyed.
func (p *Protocol) RecordsFor(m *peerv1.Message) string {
	if p.commands.Knows(m.Key) {
		return ""
	}
	return instance.StateKind
}

// Submit implements protocol.Machine.
func (p *Protocol) Submit(r protocol.Request) {
	if !p.Invalid(r) {
		p.commands.Submit(r)
	}
}

// Receive implements protocol.Machine.
func (p *Protocol) Receive(from view.MemberID, m *peerv1.Message) { p.commands.Receive(from, m) }

// Tick implements protocol.Machine.
func (p *Protocol) Tick(now protocol.Instant) { p.commands.Tick(now) }

// Adopt implements member.Inner: it merges a record of another member.
func (p *Protocol) Adopt(key, value []byte) error { return p.commands.Adopt(key, value) }

// Settle implements member.Inner: it asks who has executed what this newcomer only heard of.
func (p *Protocol) Settle(now protocol.Instant) bool { return p.commands.Settle(now) }

// Unsettled implements member.Inner.
func (p *Protocol) Unsettled() int { return p.commands.Unsettled() }

// Unfinished implements protocol.Machine: a read begins again, what changes something stays with its instance.
func (p *Protocol) Unfinished() []protocol.Request { return p.commands.Unfinished() }

// Pending is how many instances this member holds unfinished.
func (p *Protocol) Pending() int { return p.commands.Pending() }
