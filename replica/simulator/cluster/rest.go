package cluster

import (
	"fmt"
	"slices"

	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/simulator/invariant"
)

// Misunderstood says which member performs what is no operation, instead of saying so at once; or nothing. Nothing can
// be judged after it: members have been asked.
func (w *Cluster) Misunderstood() error {
	for _, nd := range w.resting() {
		for shard, s := range nd.Running() {
			for _, op := range []register.Operation{
				{Key: "k"},
				{Kind: register.RMW, Key: "k", Call: register.Call{Function: "unknown.v1"}},
				{Kind: register.RMW, Key: "k", Call: register.Call{Function: register.Add, Args: [][]byte{nil, nil}}},
			} {
				nd.handle++
				s.Protocol.Submit(protocol.Request{Handle: nd.handle, Operation: op})
				refuses := func(c protocol.Completion) bool {
					no := c.Result.Status == register.Invalid || c.Result.Status == register.Unsupported
					return no && c.Handle == nd.handle
				}
				if !slices.ContainsFunc(s.Protocol.Ready().Complete, refuses) {
					return fmt.Errorf("member %d, shard %d: it does not say at once that %v of function %q is no "+
						"operation", nd.Index+1, shard, op.Kind, op.Call.Function)
				}
			}
		}
	}
	return nil
}

// resting are the members that are there, and serve, once all is quiet.
func (w *Cluster) resting() (members []*Node) {
	for _, member := range w.Made[w.Record].Members {
		if nd := w.Nodes[member.ID-1]; !nd.Gone && !nd.Down && nd.Acts && nd.Held == w.Record && !nd.Lost {
			members = append(members, nd)
		}
	}
	return members
}

// Unrested says what members have not done yet of what they do without being asked once all is quiet, or nothing.
func (w *Cluster) Unrested() string {
	resting := w.resting()
	if w.judged() {
		for shard := range w.Environment.Shards {
			var disks []invariant.Resting
			for _, nd := range resting {
				disks = append(disks, invariant.Resting{ID: nd.Config.Self, Records: nd.Shards[shard].Disk.Records})
			}
			if why := invariant.Unrested(&w.Made[w.Record].View, disks); why != "" {
				return why
			}
		}
	}
	if why := unsynced(resting); why != "" {
		return why
	}
	if !w.Environment.Doubtful {
		return ""
	}
	if why := unnoted(resting); why != "" {
		return why
	}
	return w.unnotedOfWitnesses(resting)
}

// unsynced says which master has entries that it has not synced, or whose log is behind that of its master; or nothing.
// A follower that is behind for ever is sent the same each time, and a backup that hears of entries which are not synced
// answers no read.
func unsynced(resting []*Node) string {
	type part struct {
		*Node
		protocol.PartitionStatus
	}
	var parts []part
	for _, nd := range resting {
		for _, s := range nd.Running() {
			if p, is := s.Protocol.(protocol.Partitioned); is {
				parts = append(parts, part{nd, p.PartitionStatus()})
			}
		}
	}
	for _, m := range parts {
		if m.Role != protocol.Master || !m.Serving {
			continue
		}
		if m.Unsynced > 0 {
			return fmt.Sprintf("member %d, the master of partition %d, has %d entries that it has not synced",
				m.Index+1, m.Partition, m.Unsynced)
		}
		for _, p := range parts {
			if p.Partition == m.Partition && p.Term == m.Term && p.Commit < m.Commit {
				return fmt.Sprintf("member %d has %d entries of partition %d, and its master has synced %d",
					p.Index+1, p.Commit, m.Partition, m.Commit)
			}
		}
	}
	return ""
}

// unnoted says of whose disk another member has not noted how far it is, as far as that was told since all is quiet; or
// nothing.
func unnoted(resting []*Node) string {
	for _, nd := range resting {
		for shard, s := range nd.Running() {
			is := Batches(s.Disk.Records)
			if is <= s.before {
				continue
			}
			for _, other := range resting {
				p := other.NotedOf(nd, shard)
				if other != nd && max(p.GetBatches(), p.GetBefore()) < is {
					return fmt.Sprintf("member %d has noted %d batches of member %d, which has had %d, %d of these since all is quiet",
						other.Index+1, max(p.GetBatches(), p.GetBefore()), nd.Index+1, is, is-s.before)
				}
			}
		}
	}
	return ""
}

// unnotedOfWitnesses says of which witness some members have noted less than others have, or have heard, as far as that
// is of what it promised since all is quiet; or nothing. Who hears of that tells all others.
func (w *Cluster) unnotedOfWitnesses(resting []*Node) string {
	for _, witness := range w.Made[w.Record].Witnesses {
		x := w.Nodes[witness.ID-1]
		for shard, before := range x.Witness.before {
			most := before
			for _, nd := range resting {
				most = max(most, nd.NotedOf(x, shard).GetBatches(), nd.Shards[shard].itself(witness.ID))
			}
			for _, nd := range resting {
				if noted := nd.NotedOf(x, shard).GetBatches(); most > before && noted < most {
					return fmt.Sprintf("member %d has noted %d promises of witness %d, and others %d, %d of these since all is quiet",
						nd.Index+1, noted, x.Index+1, most, most-before)
				}
			}
		}
	}
	return ""
}

// NoteBatches notes how far disks are: what was told before may be lost, with a message or with a process.
func (w *Cluster) NoteBatches() {
	for _, nd := range w.Nodes {
		for _, s := range nd.Shards {
			s.before = Batches(s.Disk.Records)
		}
		if x := nd.Witness; x != nil && x.Core != nil {
			x.before = x.before[:0]
			for i := range w.Made[w.Record].Partitions {
				x.before = append(x.before, x.Core.Promises(uint32(i)))
			}
		}
	}
}
