package cluster

import (
	"fmt"

	"github.com/georegister/georegister/replica/register"
)

// answeredUpTo is the index of the latest value of a key that the process of a member with masters has answered a read
// with in the view that it holds; 0: it has answered none.
func (nd *Node) answeredUpTo(shard int, op *register.Operation) uint64 {
	if nd.World.Environment.Partitioned == nil || op.Kind != register.Read {
		return 0
	}
	return nd.Shards[shard].answered[op.Key]
}

// judgeRead judges that reads of a key through one member do not go back, whether they may be stale or not: a client
// sees no less than what a read that had ended before it asked was answered there.
func (nd *Node) judgeRead(who *asked, result register.Result) {
	if nd.World.Environment.Partitioned == nil || who.kind != register.Read || result.Status != register.OK {
		return
	}
	index := result.Carstamp.Timestamp
	if index < who.floor {
		nd.World.Breaches(fmt.Errorf("%s answers a read of %q with what entry %d made, and had answered one with entry %d "+
			"before it was asked", nd.Name(), who.key, index, who.floor))
	}
	if !result.Value.Present() { // the index of nothing may be that of a later entry, of another key
		return
	}
	s := nd.Shards[who.shard]
	if s.answered == nil {
		s.answered = map[string]uint64{}
	}
	s.answered[who.key] = max(s.answered[who.key], index)
}
