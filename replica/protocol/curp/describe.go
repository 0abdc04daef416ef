package curp

import (
	"fmt"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol/notation"
)

// trace has what a message says, in a few words.
func trace(m *peerv1.Message) (words []string) {
	add := func(format string, args ...any) { words = append(words, fmt.Sprintf(format, args...)) }
	if x := m.Witness; x != nil {
		add("%v of partition %d term %d", x.Kind, x.Partition, x.Term)
		if x.Id != nil {
			add("id %x#%d", x.Id.Session&0xffff, x.Id.Number)
		}
		if x.Accepted {
			add("accepted")
		}
		if x.Refused != "" {
			add("refused: %s", x.Refused)
		}
		if n := len(x.Requests); n > 0 {
			add("%d requests", n)
		}
		for _, d := range x.Drops {
			add("drop %x#%d", d.Id.GetSession()&0xffff, d.Id.GetNumber())
		}
	}
	c := m.Curp
	if c == nil {
		return words
	}
	add("term %d", c.Term)
	if r := c.Request; r != nil {
		add("of %q %s id %x#%d", r.Key, r.Command.GetFunction(), r.Command.GetSession()&0xffff, r.Command.GetNumber())
		if r.Present {
			add("value %s", notation.Short(r.Value))
		}
	}
	if a := c.Answer; a != nil && a.Present {
		add("= %s", notation.Short(a.Value))
	}
	for _, flag := range []struct {
		name string
		set  bool
	}{{"sync", c.Sync}, {"synced", c.Synced}, {"waited", c.Waited}, {"refused", c.Refused}, {"lacking", c.Lacking}, {"done", c.Done}, {"may be stale", c.Stale}} {
		if flag.set {
			words = append(words, flag.name)
		}
	}
	for _, e := range c.Entries {
		add("entry %d.%d %q", e.Term, e.Index, e.Key)
	}
	if c.Last+c.Commit > 0 {
		add("last %d commit %d", c.Last, c.Commit)
	}
	if c.Asked+c.Granted+c.Wanted+c.Delegated != 0 {
		add("lease asked %d granted %d wanted %d delegated %d behind %d", c.Asked, c.Granted, c.Wanted, c.Delegated, c.Behind)
	}
	if n := len(c.Records); n > 0 {
		add("%d records", n)
	}
	return words
}
