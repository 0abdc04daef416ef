// Package base is the frame that all protocols share: what a member's part is made of, what it asks of the world, the
// operations that it coordinates, its copies of registers, and the words in which operations are refused and given up.
package base

import (
	"errors"
	"fmt"
	"time"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/quorum"
	"github.com/georegister/georegister/replica/protocol/slab"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// Base is one member's part of a protocol, as far as it is alike in all of them. A protocol embeds it; the parts of a
// protocol share one.
type Base struct {
	Outbox
	Config       protocol.Config
	Incarnations *quorum.Incarnations
	Now          protocol.Instant // of the last Tick
	Draws        Draws
	Keys         slab.Keys // of records, and of operations
}

// New returns the base of the protocol of that name.
func New(name string, config protocol.Config, journal *protocol.Journal, known *quorum.Incarnations) *Base {
	b := &Base{Config: config, Incarnations: known, Draws: Draws(config.Seed)}
	b.Outbox = NewOutbox(name, firstOp(&config, known), journal)
	return b
}

// firstOp is the number that a coordinator's questions count up from. It names the incarnation and the boot, so that an
// answer to a question of an earlier process is never taken for one of this process; countBits count. After 65,536
// starts of a disk, numbers begin anew.
func firstOp(c *protocol.Config, known *quorum.Incarnations) uint64 {
	return uint64(known.Of(c.Self)&0xff)<<56 | uint64(c.Boot&(1<<bootBits-1))<<countBits
}

// CountOf is what the number of a question counts: no two of a process have the same.
func CountOf(op uint64) uint64 { return op & (1<<countBits - 1) }

const (
	// bootBits are those of the boot that the numbers of questions have.
	bootBits = 16
	// countBits are those below.
	countBits = 40
)

// Writer names this process on this disk: no other one issues its carstamps.
func (b *Base) Writer() register.Writer { return b.writer(b.Config.Boot) }

// Author names this disk, over all its processes.
func (b *Base) Author() register.Writer { return b.writer(0) }

// Numberer names this disk over those of its processes whose questions have numbers that grow from one process to the
// next.
func (b *Base) Numberer() register.Writer { return b.writer(b.Config.Boot >> bootBits) }

func (b *Base) writer(boot uint32) register.Writer {
	self := b.Config.Self
	return register.NewWriter(uint32(self), uint32(b.Incarnations.Of(self)), boot)
}

// Took counts a path of the protocol.
func (b *Base) Took(path string) { b.Config.Took(path) }

// Pace implements protocol.Machine.
func (b *Base) Pace(retry, suspect time.Duration) { b.Config.Retry, b.Config.Suspect = retry, suspect }

// AskQuorum begins a question: the nearest members that are a quorum with this one.
func (b *Base) AskQuorum(t *quorum.Tally) []view.MemberID {
	return t.AskQuorum(&b.Config, b.Incarnations, b.Now)
}

// AskAll begins a question to all other members.
func (b *Base) AskAll(t *quorum.Tally) []view.MemberID {
	return t.Ask(&b.Config, b.Now, len(b.Config.Nearest))
}

// Unanswered are the members to retransmit a question to, if it is time for that: those that have not answered.
func (b *Base) Unanswered(t *quorum.Tally) []view.MemberID {
	return t.Again(&b.Config, b.Incarnations, b.Now)
}

// Put stores the record of a key's register, as it was encoded, under a key of the journal.
func (b *Base) Put(record, key, encoded []byte, err error) {
	if err != nil {
		b.Fault("encode the register of key %q: %w", key, err)
		return
	}
	b.Journal.Put(record, encoded)
}

// Late reports whether a request's deadline has passed.
func (b *Base) Late(r *protocol.Request) bool { return r.Deadline != 0 && b.Now >= r.Deadline }

// NoQuorum is why an operation is given up whose questions too few answered before its deadline.
func (b *Base) NoQuorum() string {
	if b.Config.View.Joint() {
		return "members are changing, and no majority of those before the change and of those after it answered in time"
	}
	return fmt.Sprintf("fewer than %d of %d members answered in time", b.Config.View.Majority(), b.Config.View.Size())
}

// Reply sends an answer at once if what it tells of is durable, and durably otherwise, which is counted.
func (b *Base) Reply(durable bool, to view.MemberID, m *peerv1.Message) {
	if !durable {
		b.Took(PathReplyWaits)
	}
	b.SendWhen(durable, to, m)
}

// GiveUp completes a request that ends without an answer, after so many round trips: either it has had no effect, or,
// if others may know of it, it may have one yet.
func (b *Base) GiveUp(r *protocol.Request, known bool, trips int, why string) {
	path, result := PathUnavailable, Untaken(r.Operation.Kind, trips, why)
	if known {
		path, result = PathUnknown, MayTake(r.Operation.Kind, trips, why)
	}
	b.Took(path)
	b.Complete(r.Handle, result)
}

// Settled is what protocols embed whose members have no unfinished work that only some disks may vote on: what a lost
// disk has promised or accepted with a quorum, an adopter has too, and its records are adopted. It is the part of
// member.Inner about such work.
type Settled struct{}

// Settle implements member.Inner.
func (Settled) Settle(protocol.Instant) bool { return true }

// Unsettled implements member.Inner.
func (Settled) Unsettled() int { return 0 }

// Untaken is the result of an operation that is given up, after so many round trips, before it could have an effect.
func Untaken(kind register.Kind, trips int, why string) register.Result {
	return register.Result{
		Status: register.Unavailable, RoundTrips: trips, Message: fmt.Sprintf("%s; the %s did not take effect, try again", why, kind),
	}
}

// MayTake is the result of an operation that is given up and may have an effect all the same.
func MayTake(kind register.Kind, trips int, why string) register.Result {
	return register.Result{
		Status: register.Unknown, RoundTrips: trips,
		Message: fmt.Sprintf("%s; the %s may take effect yet, read the key to find out", why, kind),
	}
}

// Invalid completes a request that is no read, no write and no call of a known function, and reports whether it did.
func (b *Base) Invalid(r protocol.Request) bool {
	err := CheckOperation(b.Config.Functions, r.Operation)
	if err != nil {
		b.Complete(r.Handle, register.Result{Status: register.Invalid, Message: err.Error()})
	}
	return err != nil
}

// CheckOperation reports what is no read, no write and no call of a known function.
func CheckOperation(functions *register.Registry, op register.Operation) error {
	switch op.Kind {
	case register.Read, register.Write:
		return nil
	case register.RMW:
		return functions.Check(op.Call)
	}
	return errors.New("the operation has no kind")
}
