package curp_test

import (
	"fmt"
	"strings"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	witnessv1 "github.com/georegister/georegister/api/witness/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/view"
)

// name is a for member 1, b for member 2, and w1 for the first witness.
func name(id view.MemberID) string {
	if id > 100 {
		return fmt.Sprint("w", id-100)
	}
	return string(rune('a' + id - 1))
}

func names(ids []view.MemberID) string {
	var all []string
	for _, id := range ids {
		all = append(all, name(id))
	}
	return strings.Join(all, " ")
}

// describe is a message in one line. Sessions are random numbers, which the caller may name.
func describe(m *peerv1.Message, session func(uint64) string) string {
	if m.Curp == nil && m.Witness == nil { // of disks
		var known []string
		for _, p := range m.Positions {
			known = append(known, fmt.Sprintf("%s %d/%d", name(view.MemberID(p.Member)), p.Start>>32, p.Batches))
		}
		return strings.TrimSpace(
			fmt.Sprintf("%s at %d/%d %s", m.Kind, m.Start>>32, m.Batches, strings.Join(known, ", ")))
	}
	if m.Witness != nil {
		return describeWitness(m.Witness, session)
	}
	c := m.Curp
	parts := []string{m.Kind.String()}
	add := func(when bool, format string, args ...any) {
		if when {
			parts = append(parts, fmt.Sprintf(format, args...))
		}
	}
	add(len(m.Key) > 0 && c.Request == nil, "%s", m.Key)
	add(c.Stale, "may be stale")
	if r := c.Request; r != nil {
		add(true, "%s", describeRequest(r, session))
		add(c.FollowsSession != 0, "after %s#%d", session(c.FollowsSession), c.FollowsNumber)
		add(c.Sync, "to be synced")
	}
	switch {
	case m.Kind == peerv1.Kind_SYNC && len(c.Entries) > 0:
		first, last := c.Entries[0], c.Entries[len(c.Entries)-1]
		add(true, "entries %d to %d,", first.Index, last.Index)
	case m.Kind == peerv1.Kind_SYNC:
		add(true, "last=%d", c.Last)
	case m.Kind == peerv1.Kind_SYNC_REPLY && c.Lacking:
		add(true, "lacks the state, log up to %d", c.Last)
	case m.Kind == peerv1.Kind_SYNC_REPLY:
		add(true, "holds %d", c.Last)
	case m.Kind == peerv1.Kind_COPY_PAGE:
		add(true, "%d records behind %d, up to %d", len(c.Records), c.Start, c.Last)
		add(c.Done, "done")
	}
	add(m.Kind == peerv1.Kind_SYNC, "commit=%d", c.Commit)
	add(m.Kind == peerv1.Kind_SYNC && c.WholeTerm < c.Term, "not whole")
	add(m.Kind == peerv1.Kind_HOLD_REPLY && c.Lacking, "knows of no term")
	add(m.Kind == peerv1.Kind_HOLD_REPLY && !c.Lacking, "was whole in term %d", c.WholeTerm)
	add(c.Delegated > 0, "may answer reads")
	if a := c.Answer; a != nil {
		switch {
		case a.Expired:
			add(true, "forgotten")
		case a.Refused != "":
			add(true, "refused: %s", a.Refused)
		case a.Present:
			add(true, "= %s", short(a.Value))
		case m.Kind == peerv1.Kind_MASTER_READ_REPLY:
			add(true, "= absent")
		default:
			add(true, "done")
		}
	}
	switch reply := m.Kind == peerv1.Kind_UPDATE_REPLY || m.Kind == peerv1.Kind_MASTER_READ_REPLY; {
	case reply && c.Refused:
		add(true, "refused")
	case reply && c.Synced:
		add(true, "synced")
	case reply:
		add(true, "not synced")
	}
	add(c.Term > 1, "(term %d)", c.Term)
	return strings.Join(parts, " ")
}

func describeRequest(r *peerv1.Request, session func(uint64) string) string {
	what := fmt.Sprintf("%s := %s", r.Key, short(r.Value))
	if c := r.Command; c.Function != "" {
		what = fmt.Sprintf("%s %s%q", r.Key, c.Function, c.Args)
	} else if !r.Present {
		what = fmt.Sprintf("delete %s", r.Key)
	}
	return fmt.Sprintf("%s#%d %s", session(r.Command.Session), r.Command.Number, what)
}

func describeWitness(w *witnessv1.Message, session func(uint64) string) string {
	parts := []string{w.Kind.String()}
	if w.Id != nil {
		parts = append(parts, fmt.Sprintf("%s#%d", session(w.Id.Session), w.Id.Number))
	}
	if f := w.Follows; f != nil {
		parts = append(parts, fmt.Sprintf("after %s#%d", session(f.Session), f.Number))
	}
	for _, d := range w.Drops {
		parts = append(parts, fmt.Sprintf("%s#%d", session(d.Id.Session), d.Id.Number))
	}
	for _, r := range w.Requests {
		parts = append(parts, fmt.Sprintf("%s#%d", session(r.Id.Session), r.Id.Number))
	}
	switch w.Kind {
	case witnessv1.Kind_RECORD_REPLY, witnessv1.Kind_CHECK_REPLY:
		if w.Accepted {
			parts = append(parts, "accepted")
		} else {
			parts = append(parts, "rejected")
		}
	}
	if w.Refused != "" {
		parts = append(parts, "("+w.Refused+")")
	}
	if w.Term > 1 {
		parts = append(parts, fmt.Sprintf("(term %d)", w.Term))
	}
	return strings.Join(parts, " ")
}

func describeCompletion(c protocol.Completion) string {
	r := c.Result
	text := fmt.Sprintf("operation %d: %s", c.Handle, r.Status)
	if r.Value.Present() {
		text += " " + short(r.Value)
	}
	text += fmt.Sprintf(" after %d round trips", r.RoundTrips)
	if r.Fast {
		text += ", fast"
	}
	return text
}

func describeStanding(s protocol.PartitionStatus) string {
	text := fmt.Sprintf("%s of term %d, log up to %d, synced up to %d", s.Role, s.Term, s.Last, s.Commit)
	switch {
	case s.Serving:
		text += fmt.Sprintf(", serves, recovered %d", s.Recovered)
	case s.Role == protocol.Master:
		text += ", does not serve"
	}
	if len(s.Needed) > 0 {
		text += fmt.Sprintf(", needs the terms %v", s.Needed)
	}
	if len(s.CaughtUp) > 0 {
		text += ", caught up: " + names(s.CaughtUp)
	}
	if s.Copying {
		text += ", copies the state"
	}
	if s.Lost {
		text += ", lost"
	}
	if s.Restarted {
		text += ", restarted"
	}
	if s.Why != "" {
		text += ": " + s.Why
	}
	return text
}

func short(value []byte) string {
	if len(value) > 40 {
		return fmt.Sprintf("%q and so on", value[:3])
	}
	return fmt.Sprintf("%q", value)
}
