package check

import (
	"fmt"

	"go.etcd.io/raft/v3/raftpb"

	"github.com/georegister/georegister/replica/simulator/field"
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
			g.grants[grant{h.Member, to, r.term}] = field.Incarnation(known, h.View.Index(to))
		}
		return nil
	case raftpb.MsgApp, raftpb.MsgHeartbeat, raftpb.MsgSnap:
	default:
		return nil
	}
	if g.elected[r.term] {
		return nil
	}
	own := field.Incarnation(known, h.View.Index(h.Member))
	if !h.View.Quorum(func(id view.MemberID) bool {
		return id == h.Member || g.grants[grant{id, h.Member, r.term}] == own
	}) {
		return fmt.Errorf("leads in term %d with disk %d, for which no quorum has voted in that term", r.term, own)
	}
	g.elected[r.term] = true
	return nil
}
