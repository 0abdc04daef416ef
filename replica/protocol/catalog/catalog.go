// Package catalog finds protocols by name, for the worlds that run them.
package catalog

import (
	"fmt"
	"strings"

	"github.com/georegister/georegister/replica/protocol/abd"
	"github.com/georegister/georegister/replica/protocol/gryff"
	"github.com/georegister/georegister/replica/protocol/member"
	"github.com/georegister/georegister/replica/protocol/raft"
)

// entries are sorted by name.
var entries = []struct {
	name    string
	factory member.Factory
}{
	{"abd", abd.Factory},
	{"gryff", gryff.Factory},
	{"raft", raft.Factory},
}

// Find returns the factory of a protocol. The case of the name does not matter: manifests spell it as its
// paper does.
func Find(name string) (member.Factory, error) {
	for _, e := range entries {
		if strings.EqualFold(e.name, name) {
			return e.factory, nil
		}
	}
	return nil, fmt.Errorf("unknown protocol %q; use one of %s", name, strings.Join(Names(), ", "))
}

// Names lists the protocols in lower case, sorted.
func Names() []string {
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.name
	}
	return names
}
