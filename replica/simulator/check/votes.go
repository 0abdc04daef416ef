package check

import (
	"fmt"

	"go.etcd.io/raft/v3/raftpb"

	"github.com/georegister/georegister/replica/view"
)

// grant is a vote of a member of a Raft group for another one, in a term.
type grant struct {
	voter, candidate view.MemberID
	term             uint64
}

// elects judges that who leads was voted for by a quorum that knew its present disk: the votes that one before it got
// are void, since the next one may lack what that had. A vote leaves its member before the candidate counts it.
func (g *group) elects(h *Holder, to view.MemberID, r raftMessage, known []uint32) error {
	switch r.kind {
	case raftpb.MsgVoteResp:
		if !r.reject {
			if g.grants == nil {
				g.grants = map[grant]uint32{}
			}
			g.grants[grant{h.Member, to, r.term}] = incarnationOf(h.View, known, to)
		}
		return nil
	case raftpb.MsgApp, raftpb.MsgHeartbeat, raftpb.MsgSnap:
	default:
		return nil
	}
	if g.elected[grant{candidate: h.Member, term: r.term}] {
		return nil
	}
	own := incarnationOf(h.View, known, h.Member)
	if !h.View.Quorum(func(id view.MemberID) bool {
		return id == h.Member || g.grants[grant{id, h.Member, r.term}] == own
	}) {
		return fmt.Errorf("leads in term %d with disk %d, for which no quorum has voted in that term", r.term, own)
	}
	if g.elected == nil {
		g.elected = map[grant]bool{}
	}
	g.elected[grant{candidate: h.Member, term: r.term}] = true
	return nil
}

// incarnationOf is which disk of a member somebody knows: without a list, all are the first.
func incarnationOf(v *view.View, known []uint32, id view.MemberID) uint32 {
	if at := v.Index(id); at >= 0 && at < len(known) {
		return known[at]
	}
	return 1
}
