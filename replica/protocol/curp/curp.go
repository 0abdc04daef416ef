// Package curp is CURP (NSDI '19): a master orders and executes operations, its client saves them at witnesses at the same
// time, and an update whose key no unfinished one touches completes in one round trip, before the backups have it.
//
// A Protocol is one member's part in one partition, the shard of its index in view.Partitions. It is the client of the
// operations that are submitted here (client.go, section 3.2.1), and by the view master (master.go), backup or learner
// (follower.go) or nothing. recover.go is the recovery of section 3.3; the witness is in another room.
//
// What a world has to do beside the contract of protocol.Protocol:
//   - Envelopes to a witness's ID carry a Message of kind WITNESS; its answers come by Receive from that ID.
//   - Tick before Receive, too, as before Submit: a lease is judged by the last reading of the clock, which must not be older
//     than the question (a process that was stopped for a while goes on with messages that wait).
//   - A member of a new view is started anew with Options.Continued if the process went on; messages of other epochs of
//     the view are dropped here.
package curp

import (
	"fmt"
	"time"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/view"
)

// Protocol is one member's part in one partition. It implements protocol.Protocol.
type Protocol struct {
	config    protocol.Config
	options   Options
	partition view.Partition
	index     int
	journal   *protocol.Journal
}

var _ protocol.Protocol = (*Protocol)(nil)

// Start begins or resumes a member's part in a partition, the one of that index in config.View.Partitions, from its
// journal. Every shard of a member has a journal of its own.
func Start(config protocol.Config, partition int, journal *protocol.Journal, options Options) (*Protocol, error) {
	if err := config.View.Validate(); err != nil {
		return nil, err
	}
	if config.View.Index(config.Self) < 0 {
		return nil, fmt.Errorf("member %d is not in the view of epoch %d", config.Self, config.View.Epoch)
	}
	if partition < 0 || partition >= len(config.View.Partitions) {
		return nil, fmt.Errorf("the view of epoch %d has no partition %d; it has %d", config.View.Epoch, partition, len(config.View.Partitions))
	}
	return &Protocol{
		config: config, options: options.withDefaults(), partition: config.View.Partitions[partition], index: partition, journal: journal,
	}, nil
}

// Submit implements protocol.Protocol.
func (p *Protocol) Submit(r protocol.Request) {}

// Receive implements protocol.Protocol.
func (p *Protocol) Receive(from view.MemberID, m *peerv1.Message) {}

// Tick implements protocol.Protocol.
func (p *Protocol) Tick(now protocol.Instant) {}

// Ready implements protocol.Protocol.
func (p *Protocol) Ready() protocol.Effects { return protocol.Effects{} }

// Unfinished lists the operations in progress, for the protocol of the next view (protocol.Resume). This one does nothing
// any more.
func (p *Protocol) Unfinished() []protocol.Request { return nil }

// Pace replaces Config.Retry and Config.Suspect, such as when the round trips were measured. Any are safe.
func (p *Protocol) Pace(retry, suspect time.Duration) {
	p.config.Retry, p.config.Suspect = retry, suspect
}

// Standing tells what part this member has, and how far it is.
func (p *Protocol) Standing() Standing {
	return Standing{Partition: p.index, Term: p.partition.Term}
}

// Pending is how many operations this member is the client of and has not ended.
func (p *Protocol) Pending() int { return 0 }
