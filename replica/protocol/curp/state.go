package curp

import (
	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/base"
)

// state is one member's copy of a partition, on its disk and in memory: the log, the registers and the sessions that
// entries of the log make, and the record of the member's part. It orders and executes requests, and has no role, no
// time and no peer.
type state struct {
	config   *protocol.Config
	mistakes Mistakes
	term     uint64 // of the view, which new entries are of
	journal  *protocol.Journal
	outbox   *base.Outbox // for faults

	own     *peerv1.PartitionRecord
	unsaved bool // own is to be put
	log     log
	commit  uint64 // all backups hold the log up to here

	ahead    map[string]unapplied // of a master, by key of the state
	sessions sessions             // of a master
}
