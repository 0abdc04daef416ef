package cluster

import (
	"fmt"

	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/view"
)

// holdLease holds a lease against what was promised for it: all backups have promised a master, and their master has
// promised the backups, that nobody else serves before it ends. Clocks differ, so the two are compared in virtual time.
// Who promised on a disk that is lost since, or in a process that has ended, promises anew when it starts.
func (nd *Node) holdLease(s *shard, st *protocol.PartitionStatus) {
	if st.Leased == s.leased {
		return
	}
	w, partition := nd.World, nd.Config.View.Partitions[st.Partition]
	s.leased = st.Leased
	by := partition.Backups
	if st.Role == protocol.Backup {
		by = []view.MemberID{partition.Master}
	}
	ends := nd.Clock.When(st.Leased)
	if ends <= w.Now {
		return
	}
	for _, id := range by {
		other := w.Nodes[id-1]
		if other.Down || other.Gone || other.Lost || other.Disks > 1 || len(other.Running()) <= st.Partition {
			continue
		}
		p, ok := other.Shards[st.Partition].Protocol.(protocol.Partitioned)
		if !ok || p.Promised() == 0 {
			continue // it has not been told the time yet
		}
		if until := other.Clock.When(p.Promised()); until < ends {
			w.Breaches(fmt.Errorf("member %d reads under a lease up to %v, and member %d has promised up to %v alone",
				nd.Index+1, ends, id, until))
		}
	}
}
