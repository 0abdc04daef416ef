// Package witness is a CURP witness as a process: it puts the core, the disk and the listeners together as a
// configuration file says, and takes them apart in order.
package witness

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/georegister/georegister/replica/configfile"
	"github.com/georegister/georegister/witness/cache"
)

// MaxID is the highest ID of a witness; witnesses and members share their numbers.
const MaxID = 1<<16 - 1

// Durability is what an accepted request survives.
type Durability string

const (
	// Sync answers once the witness's log is synced: what was accepted survives a crash of the process and of the
	// machine.
	Sync Durability = "Sync"
	// Memory keeps no log and answers at once. A witness that stops for any reason, also in order, has lost all that it
	// accepted, and counts as lost: it comes back as an empty one under another disk name, and until the manager has
	// replaced it in the view, clients have no fast path. If a master and all of its f witnesses stop at once, as in a
	// power failure of one site that holds them, requests that clients saw done, and that were not synced, are gone.
	Memory Durability = "Memory"
)

// Config is the file that a witness is started with, in YAML or JSON.
type Config struct {
	Cluster string `json:"cluster"`        // the cluster's identity
	Self    uint32 `json:"self,omitempty"` // the witness's ID, required here or beside the file
	// Directory is the witness's own. With durability Memory it may be left out.
	Directory  string     `json:"directory,omitempty"`
	Durability Durability `json:"durability"`
	// Slots is how many each life has, a power of two. Absent: the paper's 4096.
	Slots int `json:"slots,omitempty"`
	// Lives is how many there can be. A partition has one, and for a time two while its master changes. Absent: 256.
	Lives int `json:"lives,omitempty"`
	// MemoryBytes bounds the slots and requests of all lives together. Absent: 1 GiB.
	MemoryBytes int64  `json:"memoryBytes,omitempty"`
	Listen      Listen `json:"listen"`
	// ExitWithInput stops the witness when its standard input ends, so that it never outlives the process that started
	// it.
	ExitWithInput bool `json:"exitWithInput,omitempty"`
}

// Listen is the addresses to listen at.
type Listen struct {
	Peer string `json:"peer"`           // for members and the manager; required
	HTTP string `json:"http,omitempty"` // health and metrics; empty: none
}

// LoadConfig reads a configuration and checks it. A self that is not 0 counts rather than the file's.
func LoadConfig(path string, self uint32) (Config, error) {
	return configfile.Load(path, func(c *Config) { c.Self = cmp.Or(self, c.Self) })
}

// Validate reports the first thing that a witness can't start with, by the name of its field.
func (c Config) Validate() error {
	for _, field := range []struct {
		wrong bool
		text  string
	}{
		{c.Cluster == "", "cluster: give the cluster's identity"},
		{c.Self < 1 || c.Self > MaxID,
			fmt.Sprintf("self: give the witness's id, from 1 to %d, in the file or with --self", MaxID)},
		{c.Durability != Sync && c.Durability != Memory,
			fmt.Sprintf("durability: %q is neither %s nor %s", c.Durability, Sync, Memory)},
		{c.Directory == "" && c.Durability != Memory,
			fmt.Sprintf("directory: give the witness's own, or durability %s", Memory)},
		{c.Lives < 0, fmt.Sprintf("lives: %d is negative; leave it out for the default", c.Lives)},
		{c.MemoryBytes < 0, fmt.Sprintf("memoryBytes: %d is negative; leave it out for the default", c.MemoryBytes)},
		{c.Listen.Peer == "", "listen.peer: give the address at which members reach the witness, host:port"},
	} {
		if field.wrong {
			return errors.New(field.text)
		}
	}
	if c.Slots != 0 {
		return cache.CheckSlots(c.Slots)
	}
	return nil
}
