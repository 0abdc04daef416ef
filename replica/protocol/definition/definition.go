// Package definition has the type in which a replication protocol defines itself: all that the rest of the project has
// to know to run it, describe it and search it. Each protocol's package exports its own, and package catalog lists
// them.
package definition

import (
	"strings"

	"google.golang.org/protobuf/proto"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/capability"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/member"
	"github.com/georegister/georegister/replica/view"
)

// Protocol defines a replication protocol.
type Protocol struct {
	// Row has the name, what it can do and what that costs. The table of package capability is generated from the rows.
	Row capability.Protocol
	// Factory makes what runs inside member.Member, which deals with lost disks. It is nil if Partitioned is not.
	Factory member.Factory
	// Partitioned is how a protocol is run that implements protocol.Partitioned. Nil: it is run by Factory.
	Partitioned *Partitioned
	// Led says that one member leads: the numbers of the row are those of operations at its site.
	Led bool
	// GoodAt and Price are its line in the README, in Markdown.
	GoodAt, Price string
	// Samples are the manifests of config/samples that have it.
	Samples []string
	// Variants are options with which it is searched too, beside itself without options.
	Variants []Variant
	// Messages describes its own part of messages, if it has one.
	Messages Messages
	// Records are those that it keeps on disk. All keys begin with the prefix of one.
	Records []Record
}

// Partitioned is how a protocol is run whose shards are partitions of the view, in each of which view.Partition gives
// members the roles of master, backup and learner, beside witnesses. Such a protocol deals with lost disks itself.
type Partitioned struct {
	// Start begins or resumes a member's part in the partition Config.Shard, from the journal of that shard.
	Start func(protocol.Config, *protocol.Journal) (protocol.Protocol, error)
	// Divide gives partitions of a view that were split off what is theirs on a member's disks. It has to have returned
	// before the first of them is started in that view; interrupted, it is done anew. Given is how many registers it gave.
	Divide func(view.View, protocol.Disks) (given int, err error)
}

// Name is the name in lower case.
func (p *Protocol) Name() string { return strings.ToLower(p.Row.Name) }

// Regular reports whether the protocol is regular sequentially consistent, and no more: reads that may be regular
// (register.Operation.Regular) are answered with what later operations then carry (register.Operation.After).
func (p *Protocol) Regular() bool { return p.Row.Regular() }

// Variant is a protocol with options.
type Variant struct {
	Name           string // the protocol's in lower case, and a word for the option
	FaultTolerance int    // as faultTolerance of a manifest; 0: it is left out
	DataFragments  int    // as erasureCoding.dataFragments of a manifest; 0: values are stored whole
}

// Messages describes the parts of messages that are a protocol's own, for scripts and for traces of the simulator. What
// messages of several protocols have, such as the key, a carstamp and a value, is described without it. Any function
// may be nil.
type Messages struct {
	// Own reports whether a message has such a part. Only then is another function called.
	Own func(m *peerv1.Message) bool
	// Kind is the kind of the message in a script, if the common one says too little.
	Kind func(m *peerv1.Message) string
	// Describe is the part in a script; empty if there is nothing to say.
	Describe func(m *peerv1.Message) string
	// NoCarstamp says that the fields of a carstamp and a value have another meaning, which Describe tells.
	NoCarstamp bool
	// Trace has the words of the part in a trace of the simulator.
	Trace func(m *peerv1.Message) []string
}

// Record is one kind of record of a protocol's journal. The keys of other protocols' records may begin in the same way.
type Record struct {
	Prefix  string        // of the keys
	Message proto.Message // the type of the value, empty; nil if the value is no message of api/peer
	// Describe describes a record for scripts, by what follows the first byte of its key; false: the value is no such
	// record. It is nil if records of that prefix are described alike for several protocols.
	Describe func(name string, value []byte) (string, bool)
	// DescribeKey describes the key of a record; empty if it is none. It may be nil.
	DescribeKey func(key []byte) string
}
