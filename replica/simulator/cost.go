package simulator

import (
	"time"

	"github.com/georegister/georegister/replica/history"
	"github.com/georegister/georegister/replica/protocol/digest"
	"github.com/georegister/georegister/replica/register"
)

// Cost is what a schedule cost until everything had come to rest. Nothing is promised of it, but two versions of the
// code can be compared by what the same schedules cost with each: many of them tell what no history does, such as a
// message that is not sent again until something else has it be sent.
type Cost struct {
	Seed     uint64        `json:"seed"`
	Plain    string        `json:"plain,omitempty"` // which plain run it was (Deviations); empty: it was none
	Reads    time.Duration `json:"reads"`           // that clients waited for the answers to them that they got, in sum
	Updates  time.Duration `json:"updates"`         // the same of writes and rmws
	Unknown  int           `json:"unknown"`         // operations whose outcome nobody was told
	Unready  time.Duration `json:"unready"`         // for how long a change, a failover or a member was not done
	Behind   time.Duration `json:"behind"`          // for how long a member had a part of others' state only
	Lasted   time.Duration `json:"lasted"`          // all of it
	Messages uint64        `json:"messages"`        // of members, that were sent
	Bytes    uint64        `json:"bytes"`           // of those
	Batches  uint64        `json:"batches"`         // of records, that members wrote
	Stored   int           `json:"stored"`          // bytes of records on disks, in the end
	Held     int           `json:"held"`            // by members in memory in the end, in bytes of their digests' texts
}

// cost is that of a run that has ended.
func (w *run) cost(seed uint64, operations []history.Operation, by *course) Cost {
	c := Cost{
		Seed: seed, Unready: by.unready, Behind: by.behind, Lasted: w.Now,
		Messages: w.Network.Carried, Bytes: w.Network.Bytes, Batches: w.Batches,
	}
	for _, o := range operations {
		switch {
		case !o.Known():
			c.Unknown++
		case o.Request.Kind == register.Read:
			c.Reads += o.Latency()
		default:
			c.Updates += o.Latency()
		}
	}
	digester := digest.New()
	for _, nd := range w.Nodes {
		if nd.Gone {
			continue
		}
		now := nd.Clock.Read(w.Now)
		for _, s := range nd.Shards {
			for key, value := range s.Disk.Records { // order is irrelevant: a sum
				c.Stored += len(key) + len(value)
			}
			if !nd.Down && s.Protocol != nil {
				c.Held += digester.Size(s.Protocol, now)
			}
		}
	}
	return c
}
