package history

import (
	"github.com/georegister/georegister/replica/register"
)

// count is the carstamp of a value if carstamps count, as those of EPaxos do: every write takes the timestamp of the
// one before plus 1, and every rmw adds 1 to the rmws. Between two steps whose carstamps are known it tells how many
// others there were.
type count struct {
	timestamp, rmws uint64
	// How many writes and rmws of unknown outcome may still have taken effect, where they are placed or where no one
	// saw it.
	writes, changes int
}

// counts reports whether the carstamps of the steps in order may be counts, and what is counted from. They are none if
// two writers have the same timestamp, or if there are not so many writes; without loose steps there is nothing to
// gain. leftOut is how many unknown writes there are beside the loose ones.
func counts(order, loose []*step, leftOut int) (count, bool) {
	if len(order) == 0 || len(loose) == 0 {
		return count{}, false
	}
	writer := map[uint64]register.Writer{}
	for _, s := range order {
		c := s.Result.Carstamp
		if w, ok := writer[c.Timestamp]; ok && w != c.Writer {
			return count{}, false
		}
		writer[c.Timestamp] = c.Writer
	}
	last := order[len(order)-1]
	before, late := 0, 0        // known writes that the last timestamp includes, and that it may include
	unknown, rmws := leftOut, 0 // of unknown outcome
	for _, steps := range [][]*step{order, loose} {
		for _, s := range steps {
			switch {
			case s.Request.Kind == register.RMW && !s.known:
				rmws++
			case s.Request.Kind != register.Write:
			case !s.known:
				unknown++
			case !s.Result.Carstamp.IsZero() || s.Returned < last.from:
				before++
			default:
				late++
			}
		}
	}
	end := last.Result.Carstamp.Timestamp
	if end < uint64(before) || end > uint64(before+late+unknown) {
		return count{}, false
	}
	return count{writes: int(end) - before, changes: rmws}, true
}

// after is the count after a loose step.
func (c count) after(s *step) count {
	switch s.Request.Kind {
	case register.Write:
		c.timestamp, c.rmws = c.timestamp+1, 0
		if !s.known {
			c.writes--
		}
	case register.RMW:
		c.rmws++
		if !s.known {
			c.changes--
		}
	}
	return c
}

// missing is how many writes and rmws come before a step that has a carstamp; it reports false if there are too many
// already.
func (c count) missing(s *step) (writes, rmws uint64, possible bool) {
	stamp := s.Result.Carstamp
	switch {
	case c.writes < 0 || c.changes < 0:
		return 0, 0, false
	case s.Request.Kind == register.Write:
		return stamp.Timestamp - c.timestamp - 1, 0, stamp.Timestamp > c.timestamp
	case s.Request.Kind == register.RMW && stamp.RMWs == 0:
		return 0, 0, false // it doesn't count
	case s.Request.Kind == register.RMW:
		stamp.RMWs--
	}
	if stamp.Timestamp > c.timestamp {
		return stamp.Timestamp - c.timestamp, stamp.RMWs, true
	}
	return 0, stamp.RMWs - c.rmws, stamp.Timestamp == c.timestamp && stamp.RMWs >= c.rmws
}

// reach is the count after a step that has a carstamp, if no one saw the ones that are missing before it; it reports
// false if there are not so many.
func (c count) reach(s *step, writes, rmws uint64) (count, bool) {
	if writes > uint64(c.writes) || rmws > uint64(c.changes) {
		return c, false
	}
	return count{
		timestamp: s.Result.Carstamp.Timestamp, rmws: s.Result.Carstamp.RMWs,
		writes: c.writes - int(writes), changes: c.changes - int(rmws),
	}, true
}
