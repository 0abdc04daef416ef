// Package catalog finds protocols by name, for the worlds that run them.
package catalog

import (
	"fmt"
	"strings"

	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/abd"
	"github.com/georegister/georegister/replica/protocol/curp"
	"github.com/georegister/georegister/replica/protocol/curpraft"
	"github.com/georegister/georegister/replica/protocol/epaxos"
	"github.com/georegister/georegister/replica/protocol/gryff"
	"github.com/georegister/georegister/replica/protocol/gus"
	"github.com/georegister/georegister/replica/protocol/layered"
	"github.com/georegister/georegister/replica/protocol/member"
	"github.com/georegister/georegister/replica/protocol/quorum"
	"github.com/georegister/georegister/replica/protocol/raft"
	"github.com/georegister/georegister/replica/protocol/rmwpaxos"
)

// Entry is how a protocol is run.
type Entry struct {
	Name string // in lower case
	// Factory makes what runs inside member.Protocol, which deals with lost disks. It is nil if Parted.
	Factory member.Factory
	// Parted says that each shard is a partition of the view, with a master, backups and witnesses (view.Partition). Such a
	// protocol deals with lost disks itself, and is told the time before each message, as package curp says.
	Parted bool
	// Regular says that the protocol is regular sequentially consistent, and no more: reads that may be regular
	// (register.Operation.Regular) are answered with what later operations then carry (register.Operation.After).
	Regular bool
}

// entries are sorted by name.
var entries = []Entry{
	{Name: "abd", Factory: abd.Factory},
	{Name: "curp", Parted: true},
	{Name: "curpraft", Factory: curpraft.Factory},
	{Name: "epaxos", Factory: epaxos.Factory},
	{Name: "gryff", Factory: gryff.Factory},
	{Name: "gryffrsc", Factory: gryff.FactoryRSC, Regular: true},
	{Name: "gus", Factory: layered.Wrap(func(c protocol.Config, j *protocol.Journal, r *quorum.Incarnations) layered.Inner {
		return gus.New(c, j, r, gus.Mistakes{})
	})},
	{Name: "raft", Factory: raft.Factory},
	{Name: "rmwpaxos", Factory: rmwpaxos.Factory},
	{Name: "rmwpaxosatleastonce", Factory: rmwpaxos.AtLeastOnce},
}

// Find returns how a protocol is run. The case of the name does not matter: manifests spell it as its paper does.
func Find(name string) (Entry, error) {
	for _, e := range entries {
		if strings.EqualFold(e.Name, name) {
			return e, nil
		}
	}
	return Entry{}, fmt.Errorf("unknown protocol %q; use one of %s", name, strings.Join(Names(), ", "))
}

// Start begins or resumes a member's part of a shard, from the shard's journal. The options are those of a protocol that is
// Parted.
func (e Entry) Start(config protocol.Config, shard int, journal *protocol.Journal, options curp.Options) (protocol.Protocol, error) {
	if !e.Parted {
		return member.Start(config, journal, e.Factory)
	}
	p, err := curp.Start(config, shard, journal, options)
	if err != nil {
		return nil, err
	}
	return p, nil
}

// Names lists the protocols in lower case, sorted.
func Names() []string {
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name
	}
	return names
}
