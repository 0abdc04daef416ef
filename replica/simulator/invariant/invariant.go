// Package invariant holds what members do against what their protocols are proven by:
//
//	a disk never goes back                    disk.go
//	a member says only what its disk has      claim.go
//	a name has one value                      name.go
//	a write has one name                      write.go
//	a proposal or an answer rests on a quorum quorum.go, chosen.go
//	who asks has a reason                     asks.go
//
// and of large values that are stored as fragments, which are no records of a register: fragment.go and collect.go.
//
// Clients see that a rule is broken only when a rare chain of events follows, such as a crash and a recovery by just
// those members that lack something. What a member says shows it at once.
//
// Which rules there are for a protocol is said by tables: of records by the first byte of their keys, and of messages
// by their kinds. A protocol that has neither is held to none of them.
package invariant

import (
	"fmt"
	"time"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol/wire"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// Records are what a member has: on its disk, or in its journal. It reports false if there is no record of that key.
type Records func(key []byte) ([]byte, bool)

// Run is what the rules remember of one run. The zero value is that of its beginning.
type Run struct {
	Broken error // the first rule that was broken, as people are told; nil: none

	said, left *peerv1.Message // the last ones: most go to several members
	writes     [2][]aWrite     // space for those of a record, and of the one before it

	// None of these maps is ever ranged over.

	named     map[name]content                  // what names stand for
	questions map[question][]claim              // what is claimed by whoever answers
	granted   map[proposal][]view.MemberID      // who has promised a ballot
	voted     map[proposal][]view.MemberID      // and voted in it
	proposed  map[proposal]choice               // what was proposed in it
	held      map[held]bool                     // what a quorum has
	tables    map[table]bool                    // that were shown
	chosen    map[string]choice                 // by key: the latest choice that is known
	final     map[tag]bool                      // of Gus
	committed map[string]bool                   // by the key of an instance's record
	seqs      map[string]uint64                 // of committed updates, by the key of an instance's record
	instances map[string]*past                  // by the key of an instance's record
	reached   map[string][]reached              // by key: how far it was in each epoch
	asked     map[vote]bool                     // who was asked for a vote
	refused   map[refusal]bool                  // of Gus: who has told a writer that it does not hold its tag
	locked    map[tag]bool                      // of Gus, by first tag: writes that somebody asked for a ballot on
	asks      map[asking]*agreement             // about keys that are agreed on in place
	turned    []*agreement                      // those that were answered in the turn that is not over
	updated   map[string]bool                   // the keys that clients have asked to update
	ballots   map[string][]backed               // by key, as they were voted for first
	voters    map[diskNumber]string             // the disks that have voted under a number
	requested map[written]int                   // how often clients have asked for a write
	given     map[written][]register.Carstamp   // what its writes were given
	began     map[tag]register.Carstamp         // of Gus, by a later tag: the one that its write began with
	ended     map[tag]register.Carstamp         // by the one that it began with: the one that it has for good
	begun     map[value]bool                    // large values that were begun
	stored    map[value]bool                    // by enough, each its fragment
	told      map[wants][]view.MemberID         // who has said whether it has a fragment
	absent    map[question][]view.MemberID      // who has none, of those that were asked
	large     map[tag]value                     // what metadata tags of Gus stand for
	counting  map[uint64]bool                   // epochs in which Gus has relaxed quorums
	cameAfter map[written][]register.Dependency // what all its writes come after
}

// Speaker is a member that says something.
type Speaker struct {
	ID    view.MemberID
	Shard int
	View  *view.View
	Disk  string // names the present one
	// Losses is how many members may have lost their disks at once; 0: any minority.
	Losses int
	// Tolerance is how many members may be lost at once, where quorums are counted by it (protocol.Config.Faults); 0: any
	// minority.
	Tolerance int

	Boot   uint32        // of its process
	Now    time.Duration // what all clocks are about
	Retry  time.Duration // the shortest that anybody has
	Intact bool          // no disk was lost, and none put back
}

// broken notes a rule that a member has broken.
func (r *Run) broken(who view.MemberID, format string, args ...any) {
	if r.Broken == nil {
		r.Broken = fmt.Errorf("member %d "+format, append([]any{who}, args...)...)
	}
}

// Leaves notes a message that leaves its member, and holds it against the disks of all.
func (r *Run) Leaves(s Speaker, m *peerv1.Message, disks Disks) {
	if r.Broken != nil || m == r.left {
		return
	}
	r.left = m
	r.ask(s, m)
	r.name(s, m)
	r.give(s, m)
	r.tell(s, m)
	r.propose(s, m, disks)
	r.decide(s, m, disks)
	r.store(s, m, disks)
	r.noteMetadata(m)
	r.refuse(s, m)
	if m.Kind == peerv1.Kind_FRAGMENT_STORE {
		r.begin(valueIn(m))
	}
	if m.Kind == peerv1.Kind_GUS_LOCK {
		if r.locked == nil {
			r.locked = map[tag]bool{}
		}
		r.locked[tag{string(m.Key), wire.Carstamp(m.Gus.GetOrigin(), m.Writer, 0)}] = true
	}
	if m.Kind == peerv1.Kind_GUS_FINAL || m.Gus.GetFinal() {
		r.noteFinal(m.Key, wire.Of(m).Carstamp)
	}
	if m.Kind == peerv1.Kind_GUS_READ_REPLY && m.Gus.GetHeld() && s.View.Size() > 3 {
		if r.counting == nil {
			r.counting = map[uint64]bool{}
		}
		r.counting[s.View.Epoch] = true
	}
}
