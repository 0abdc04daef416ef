package invariant

import (
	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// table names what a key remembers of batches.
type table struct {
	key  string
	hash uint64
}

// shows notes a table, and reports whether nobody has shown it before.
func (r *Run) shows(key, raw []byte) (isNew bool) {
	t := table{string(key), hash(raw)}
	if r.tables == nil {
		r.tables = map[table]bool{}
	}
	isNew = !r.tables[t]
	r.tables[t] = true
	return isNew
}

// makesTable holds what a proposer remembers of batches, with a table that it has just made, against its view: the last
// batch of each member, of whom nobody else asks. The carstamp of an answer tells which proposal took effect.
func (r *Run) makesTable(s Speaker, m *peerv1.Message) {
	state, raw := &peerv1.KeyState{}, m.RmwPaxos.GetTable()
	if !r.shows(m.Key, raw) || m.Epoch != s.View.Epoch || state.UnmarshalVT(raw) != nil {
		return
	}
	for _, e := range state.Executed {
		author := view.MemberID(register.Writer(e.GetId().GetWriter()).Member())
		if s.View.Index(author) < 0 {
			r.broken(s.ID, "makes a state of key %q that remembers a batch of member %d, which the view does not have", m.Key,
				author)
		}
		for _, a := range e.Answers {
			if (a.Timestamp == 0) != (a.Writer == 0) {
				r.broken(s.ID, "makes a state of key %q that remembers an answer of member %d with timestamp %d of writer %v",
					m.Key, author, a.Timestamp, register.Writer(a.Writer))
			}
		}
	}
}
