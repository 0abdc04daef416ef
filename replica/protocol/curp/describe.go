package curp

import (
	"fmt"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol/notation"
)

// trace has what a message says, in a few words.
func trace(m *peerv1.Message) (words []string) {
	add := func(said bool, format string, args ...any) {
		if said {
			words = append(words, fmt.Sprintf(format, args...))
		}
	}
	if x := m.Witness; x != nil {
		add(true, "%v of partition %d term %d", x.Kind, x.Partition, x.Term)
		add(x.Id != nil, "id %x#%d", x.GetId().GetSession()&0xffff, x.GetId().GetNumber())
		add(x.Follows != nil, "follows %x#%d", x.GetFollows().GetSession()&0xffff, x.GetFollows().GetNumber())
		add(x.Accepted, "accepted")
		add(x.Refused != "", "refused: %s", x.Refused)
		add(len(x.Requests) > 0, "%d requests", len(x.Requests))
		for _, d := range x.Drops {
			add(true, "drop %x#%d", d.Id.GetSession()&0xffff, d.Id.GetNumber())
		}
	}
	c := m.Curp
	if c == nil {
		return words
	}
	add(true, "term %d", c.Term)
	r, id, a := c.GetRequest(), c.GetRequest().GetCommand(), c.GetAnswer()
	add(r != nil, "of %q %s id %x#%d", r.GetKey(), id.GetFunction(), id.GetSession()&0xffff, id.GetNumber())
	add(r.GetPresent(), "value %s", notation.Short(r.GetValue()))
	add(c.FollowsSession != 0, "follows %x#%d", c.FollowsSession&0xffff, c.FollowsNumber)
	add(a.GetPresent(), "= %s", notation.Short(a.GetValue()))
	add(c.Sync, "sync")
	add(c.Synced, "synced")
	add(c.Waited, "waited")
	add(c.Refused, "refused")
	add(c.Lacking, "lacking")
	add(c.Done, "done")
	add(c.Stale, "may be stale")
	for _, e := range c.Entries {
		add(true, "entry %d.%d %q", e.Term, e.Index, e.Key)
	}
	add(c.Last+c.Commit > 0, "last %d commit %d", c.Last, c.Commit)
	add(c.Asked+c.Granted+c.Wanted+c.Delegated != 0, "lease asked %d granted %d wanted %d delegated %d behind %d",
		c.Asked, c.Granted, c.Wanted, c.Delegated, c.Behind)
	add(len(c.Records) > 0, "%d records", len(c.Records))
	return words
}
