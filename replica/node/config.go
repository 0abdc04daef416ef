// Package node is one member as a process: it puts storage, transport, runtime and the listeners together
// as a configuration file says, and takes them apart in order.
package node

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/georegister/georegister/replica/capability"
	"github.com/georegister/georegister/replica/configfile"
	"github.com/georegister/georegister/replica/listener/operation"
	"github.com/georegister/georegister/replica/proof"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/catalog"
	"github.com/georegister/georegister/replica/protocol/definition"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/runtime"
	"github.com/georegister/georegister/replica/storage"
	"github.com/georegister/georegister/replica/view"
)

// Config is the file that a member is started with, in YAML or JSON. All members of a cluster can share one: then
// Self and Site are given beside it (Who).
type Config struct {
	Cluster  string `json:"cluster"`  // the cluster's identity
	Protocol string `json:"protocol"` // as manifests spell it
	// 1..runtime.MaxShards; fixed for the cluster's life: of partitions, those that it was founded with.
	Shards int           `json:"shards"`
	Self   view.MemberID `json:"self,omitempty"` // required, here or beside the file
	Site   string        `json:"site,omitempty"` // of this member; required unless Members name it

	// Epoch, Issued and Members are a view. Without Members and Epoch the member goes by the view on its disk, and
	// waits to be given one if there is none. See latest for which view counts.
	Epoch   uint64        `json:"epoch,omitempty"`
	Issued  view.MemberID `json:"issued,omitempty"` // the highest ID ever given; 0: that of Members
	Members []Member      `json:"members,omitempty"`
	// Bootstrap says that the cluster is being created, so that an empty disk votes. A view that names its
	// members' disks needs none. The view of a protocol with masters also names partitions and witnesses; it is given
	// to the admin port, and never here.
	Bootstrap bool `json:"bootstrap,omitempty"`

	Directory  string             `json:"directory"` // the member's own
	Durability storage.Durability `json:"durability"`
	FlushEvery Duration           `json:"flushEvery,omitempty"` // durability Interval

	// TransferRate bounds what the member fetches of the others' state when it joins or others leave, a second.
	// Absent: DefaultTransferRate; 0: it is not bounded.
	TransferRate *Bytes `json:"transferRate,omitempty"`

	// Cache is how much memory records of the disk are kept in. 0: Options.Cache.
	Cache Bytes `json:"cache,omitempty"`

	Limits Limits `json:"limits"`
	Listen Listen `json:"listen"`

	// FaultTolerance is how many members may be lost at once, with a protocol that has quorums of its own for less than
	// any minority; the same for all members. Absent: any minority.
	FaultTolerance int `json:"faultTolerance,omitempty"`

	// ErasureCoding is how large values are stored as fragments, with a protocol that knows of it; the same for all
	// members. Absent: they are stored whole.
	ErasureCoding *ErasureCoding `json:"erasureCoding,omitempty"`

	// TokenKeys is the file with the keys that prove to all members what one of them has answered, the same for all
	// (replica/proof). Required with a protocol that has sessions, and only there.
	TokenKeys string `json:"tokenKeys,omitempty"`

	// Distances emulate the network between this member and those at other sites, of whichever view; a site that is
	// not among them is near.
	Distances []Distance `json:"distances,omitempty"`
	// Blocked are the members to which the link is cut from the start, until the admin port mends it.
	Blocked []view.MemberID `json:"blocked,omitempty"`

	// CURP is how the protocol of that name goes about its syncs; the same for all members. Absent: its defaults.
	CURP CURP `json:"curp,omitzero"`

	// ExitWithInput stops the member when its standard input ends, so that it never outlives the process
	// that started it, however that one ended.
	ExitWithInput bool `json:"exitWithInput,omitempty"`
}

// ErasureCoding says which values are stored as fragments, one with each member, and how many of those restore one.
type ErasureCoding struct {
	DataFragments  int `json:"dataFragments"`
	ThresholdBytes int `json:"thresholdBytes"` // larger values are stored so
}

func (e *ErasureCoding) fragments() protocol.Fragments {
	if e == nil {
		return protocol.Fragments{}
	}
	return protocol.Fragments{Data: e.DataFragments, Threshold: e.ThresholdBytes}
}

// validateErasureCoding reports what large values can't be stored as fragments with. With how many members that can be
// is known with the view alone.
func (c Config) validateErasureCoding(can *capability.Protocol) error {
	e := c.ErasureCoding
	switch {
	case e == nil:
		return nil
	case e.ThresholdBytes < 1:
		return fmt.Errorf("erasureCoding: thresholdBytes is %d; it must be at least 1", e.ThresholdBytes)
	case len(c.Members) == 0:
		return can.CheckErasureCoding()
	}
	if err := can.CheckFragments(len(c.Members), c.FaultTolerance, e.DataFragments); err != nil {
		return fmt.Errorf("erasureCoding: %w", err)
	}
	return nil
}

// validateTokenKeys reports a protocol with sessions and without keys, or the other way round.
func (c Config) validateTokenKeys(can *capability.Protocol) error {
	switch regular := can.Regular(); {
	case regular && c.TokenKeys == "":
		return fmt.Errorf("tokenKeys: give the file with the keys that prove what sessions depend on, the same for "+
			"all members: protocol %s needs one; make it once, such as with "+
			"`(umask 077; openssl rand -hex %d > token-keys)`",
			c.Protocol, proof.KeyBytes)
	case !regular && c.TokenKeys != "":
		return fmt.Errorf("tokenKeys: leave it out, protocol %s has no sessions whose tokens have to be proved",
			c.Protocol)
	}
	return nil
}

// Member is one member of the view.
type Member struct {
	ID      view.MemberID `json:"id"`
	Site    string        `json:"site"`
	Address string        `json:"address"`        // where its peers reach it
	Disk    string        `json:"disk,omitempty"` // view.Member.Disk
}

// Distance is the way from a site: what comes from there takes Delay, and up to Jitter more.
type Distance struct {
	Site   string   `json:"site"`
	Delay  Duration `json:"delay,omitempty"`
	Jitter Duration `json:"jitter,omitempty"`
}

// Limits bound what a client may store, and what all clients may make the member hold.
type Limits struct {
	KeyBytes   int `json:"keyBytes"`
	ValueBytes int `json:"valueBytes"`
	// ClientMemory is what clients may make the member hold at a time, over all connections. 0: Options.ClientMemory.
	ClientMemory Bytes `json:"clientMemory,omitempty"`
}

// Listen is the addresses to listen at. Peer is required; an empty one closes that listener.
type Listen struct {
	Peer  string `json:"peer"`
	GRPC  string `json:"grpc,omitempty"`
	Redis string `json:"redis,omitempty"`
	Admin string `json:"admin,omitempty"`
	HTTP  string `json:"http,omitempty"` // health and metrics
}

// CURP says when a master syncs. What is not set is as protocol.Sync has it.
type CURP struct {
	SyncAfter int      `json:"syncAfter,omitempty"` // operations
	SyncDelay Duration `json:"syncDelay,omitempty"`
	Lease     Duration `json:"lease,omitempty"`
	// Asynchronous answers before backups have an update that no witness saves. It loses what clients were told, and is
	// there to compare with.
	Asynchronous bool `json:"asynchronous,omitempty"`
}

func (c CURP) sync() protocol.Sync {
	return protocol.Sync{
		After: c.SyncAfter, Delay: time.Duration(c.SyncDelay), Lease: time.Duration(c.Lease),
		Asynchronous: c.Asynchronous,
	}
}

// Duration is a time span in Go's notation.
type Duration time.Duration

// MarshalJSON writes it like "72ms".
func (d Duration) MarshalJSON() ([]byte, error) {
	return []byte(strconv.Quote(time.Duration(d).String())), nil
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (d *Duration) UnmarshalJSON(text []byte) error {
	quoted, err := strconv.Unquote(string(text))
	if err != nil {
		return fmt.Errorf("a duration is a string such as 72ms, not %s", text)
	}
	parsed, err := time.ParseDuration(quoted)
	if err != nil {
		return fmt.Errorf("%q is not a duration; write it like 72ms", quoted)
	}
	*d = Duration(parsed)
	return nil
}

// Who says which member of a shared configuration to run. What is not set is as the file says.
type Who struct {
	Self view.MemberID
	Site string
}

// LoadConfig reads a configuration for a member and checks it.
func LoadConfig(path string, who Who) (Config, error) {
	return configfile.Load(path, func(c *Config) {
		c.Self, c.Site = cmp.Or(who.Self, c.Self), cmp.Or(who.Site, c.Site)
	})
}

// Validate reports the first thing that a member can't start with, by the name of its field.
func (c Config) Validate() error {
	protocol, err := catalog.Find(c.Protocol)
	if err != nil {
		return fmt.Errorf("protocol: %w", err)
	}
	if err := cmp.Or(
		c.validateView(&protocol.Row), c.validatePartitions(protocol.Partitioned),
		c.validateErasureCoding(&protocol.Row), c.validateTokenKeys(&protocol.Row),
	); err != nil {
		return err
	}
	least := c.limits().LeastClientMemory()
	for _, field := range []struct {
		wrong bool
		text  string
	}{
		{c.Cluster == "", "cluster: give the cluster's identity"},
		{c.Self < 1 || c.Self > view.MaxMemberID,
			fmt.Sprintf("self: give the member's id, from 1 to %d, in the file or with --self", view.MaxMemberID)},
		{c.Site == "" && len(c.Members) == 0,
			"site: give the member's site, in the file or with --site: there are no members to tell it"},
		{c.Site == "" && c.View().Index(c.Self) < 0, fmt.Sprintf("self: member %d is not in members", c.Self)},
		{c.Shards < 1, "shards: must be at least 1"},
		{c.Directory == "", "directory: give the member a directory of its own"},
		{c.Listen.Peer == "", "listen.peer: give the address for peers"},
		{c.Limits.KeyBytes < 1 || c.Limits.ValueBytes < 1, "limits: keyBytes and valueBytes must be at least 1"},
		{c.Limits.ClientMemory != 0 && int64(c.Limits.ClientMemory) < least,
			fmt.Sprintf("limits: clientMemory must be at least %d bytes: 64Mi, and 16 times valueBytes; without it, "+
				"it is a quarter of the memory, 1Gi at most", least)},
		{c.Cache != 0 && c.Cache < storage.LeastCache,
			"cache: must be at least 16Mi; without it, it is a quarter of the container's memory"},
		{c.CURP.SyncAfter < 0 || c.CURP.SyncDelay < 0 || c.CURP.Lease < 0,
			"curp: syncAfter, syncDelay and lease must not be negative; 0 is the default"},
		{c.transferRate() < 0, "transferRate: must not be negative; 0 is no bound"},
	} {
		if field.wrong {
			return errors.New(field.text)
		}
	}
	for _, d := range c.Distances {
		if d.Delay < 0 || d.Jitter < 0 {
			return fmt.Errorf("distances: site %s: delay and jitter must not be negative", d.Site)
		}
	}
	return nil
}

func (c Config) validateView(can *capability.Protocol) error {
	if n := len(c.Members); n > 0 {
		if err := can.CheckMembers(n); err != nil {
			return fmt.Errorf("members: %w", err)
		}
		if c.FaultTolerance != 0 {
			if err := can.CheckFaults(n, c.FaultTolerance); err != nil {
				return fmt.Errorf("faultTolerance: %w", err)
			}
		}
		return usable(c.View())
	}
	switch {
	case c.Epoch != 0 || c.Issued != 0:
		return errors.New("members: epoch and issued mean nothing without members")
	case c.Bootstrap:
		return errors.New("members: bootstrap needs the members of the cluster that is made")
	}
	return nil
}

// validatePartitions reports what a protocol with masters can't be started with.
func (c Config) validatePartitions(partitioned *definition.Partitioned) error {
	switch {
	case partitioned == nil:
	case c.Durability != storage.Sync:
		return fmt.Errorf("durability: protocol %s needs Sync, not %s: with another one a member that crashes has "+
			"lost its disk, and a master or backup whose disk is lost has to be replaced", c.Protocol, c.Durability)
	case len(c.Members) > 0:
		return fmt.Errorf("members: leave them out with protocol %s: its view names partitions and witnesses, "+
			"and is given to the admin port", c.Protocol)
	}
	return nil
}

// usable reports what keeps members from running in a view. The number of members is not asked here: a view that was
// made while members change has as many as that takes.
func usable(v view.View) error {
	if err := v.Validate(); err != nil {
		return err
	}
	for _, m := range v.Members {
		if m.Address == "" {
			return fmt.Errorf("members: member %d has no address", m.ID)
		}
	}
	for _, w := range v.Witnesses {
		if w.Address == "" {
			return fmt.Errorf("witnesses: witness %d has no address", w.ID)
		}
	}
	return nil
}

// fits reports what keeps this member from running in a view.
func (c *Config) fits(v view.View) error {
	if err := usable(v); err != nil {
		return err
	}
	return runtime.CheckPartitions(v, c.Protocol, c.Shards)
}

// View is the membership that the file tells; its epoch is 0 if it tells none.
func (c Config) View() view.View {
	v := view.View{Cluster: c.Cluster, Epoch: c.Epoch, Issued: c.Issued}
	for _, m := range c.Members {
		v.Members = append(v.Members, view.Member{ID: m.ID, Site: m.Site, Address: m.Address, Disk: m.Disk})
	}
	return v
}

// distance is the way from a site; the zero one if nothing is said of it.
func (c Config) distance(site string) Distance {
	if i := slices.IndexFunc(c.Distances, func(d Distance) bool { return d.Site == site }); i >= 0 {
		return c.Distances[i]
	}
	return Distance{}
}

func (c Config) transferRate() Bytes {
	if c.TransferRate == nil {
		return DefaultTransferRate
	}
	return *c.TransferRate
}

// clientMemory is what clients may make the member hold, where it is so much by default.
func (c Config) clientMemory(byDefault int64) int64 {
	if c.Limits.ClientMemory != 0 {
		return int64(c.Limits.ClientMemory)
	}
	return max(cmp.Or(byDefault, operation.DefaultMemory), c.limits().LeastClientMemory())
}

func (c Config) limits() register.Limits {
	return register.Limits{KeyBytes: c.Limits.KeyBytes, ValueBytes: c.Limits.ValueBytes}
}
