// Package catalog lists the protocols, and finds them by name for the worlds that run them.
package catalog

import (
	"fmt"
	"strings"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/abd"
	"github.com/georegister/georegister/replica/protocol/caspaxos"
	"github.com/georegister/georegister/replica/protocol/curp"
	"github.com/georegister/georegister/replica/protocol/curpraft"
	"github.com/georegister/georegister/replica/protocol/definition"
	"github.com/georegister/georegister/replica/protocol/epaxos"
	"github.com/georegister/georegister/replica/protocol/gryff"
	"github.com/georegister/georegister/replica/protocol/gus"
	"github.com/georegister/georegister/replica/protocol/layered"
	"github.com/georegister/georegister/replica/protocol/member"
	"github.com/georegister/georegister/replica/protocol/quorum"
	"github.com/georegister/georegister/replica/protocol/raft"
	"github.com/georegister/georegister/replica/protocol/rmwpaxos"
)

// protocols are all that there are, sorted by name. A protocol is added here, by one line (docs/add-a-protocol.md).
var protocols = []Entry{
	{abd.Definition},
	{caspaxos.Definition},
	{curp.Definition},
	{curpraft.Definition},
	{epaxos.Definition},
	{gryff.Definition},
	{gryff.DefinitionRSC},
	{fragmented(gus.Definition, func(c protocol.Config, j *protocol.Journal, r *quorum.Incarnations) layered.Inner {
		return gus.New(c, j, r)
	})},
	{raft.Definition},
	{rmwpaxos.Definition},
	{rmwpaxos.DefinitionAtLeastOnce},
}

// fragmented is a protocol that can store large values as fragments.
func fragmented(d definition.Protocol, inner layered.Factory) definition.Protocol {
	d.Factory = layered.Wrap(inner)
	return d
}

// Entry is a protocol, and how it is run.
type Entry struct{ definition.Protocol }

// All lists the protocols, sorted by name. The caller must not change it.
func All() []Entry { return protocols }

// Find returns a protocol. The case of the name does not matter: manifests spell it as its paper does.
func Find(name string) (Entry, error) {
	for _, e := range protocols {
		if strings.EqualFold(e.Name(), name) {
			return e, nil
		}
	}
	return Entry{}, fmt.Errorf("unknown protocol %q; use one of %s", name, strings.Join(Names(), ", "))
}

// Start begins or resumes a member's part of a shard, from the shard's journal.
func (e Entry) Start(config protocol.Config, journal *protocol.Journal) (protocol.Protocol, error) {
	if e.Partitioned != nil {
		return e.Partitioned.Start(config, journal)
	}
	return member.Start(config, journal, e.Factory)
}

// Names lists the protocols in lower case, sorted.
func Names() []string {
	names := make([]string, len(protocols))
	for i, e := range protocols {
		names[i] = e.Name()
	}
	return names
}

// Variants lists what is searched by default: each protocol as it is, then with the options that it names.
func Variants() (all []definition.Variant) {
	for _, e := range protocols {
		all = append(append(all, definition.Variant{Name: e.Name()}), e.Variants...)
	}
	return all
}

// FindVariant is Find for a protocol or one of its variants.
func FindVariant(name string) (Entry, definition.Variant, error) {
	for _, e := range protocols {
		for _, v := range e.Variants {
			if strings.EqualFold(v.Name, name) {
				return e, v, nil
			}
		}
	}
	e, err := Find(name)
	return e, definition.Variant{Name: e.Name()}, err
}

// MessagesOf describes the protocol's own part of a message; the zero value if it has none.
func MessagesOf(m *peerv1.Message) definition.Messages {
	for _, e := range protocols {
		if own := e.Messages; own.Own != nil && own.Own(m) {
			return own
		}
	}
	return definition.Messages{}
}

// DescribeRecord describes a record of a journal; empty if no protocol knows it.
func DescribeRecord(key, value []byte) string {
	for _, e := range protocols {
		for _, r := range e.Records {
			if r.Describe == nil || !strings.HasPrefix(string(key), r.Prefix) {
				continue
			}
			if text, ok := r.Describe(string(key[1:]), value); ok {
				return text
			}
		}
	}
	return ""
}

// DescribeKey describes the key of a record; empty if no protocol knows it.
func DescribeKey(key []byte) string {
	for _, e := range protocols {
		for _, r := range e.Records {
			if r.DescribeKey == nil || !strings.HasPrefix(string(key), r.Prefix) {
				continue
			}
			if text := r.DescribeKey(key); text != "" {
				return text
			}
		}
	}
	return ""
}
