package curp

import (
	"slices"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol/bounds"
)

// Bounds on the entries that are kept although nobody is known to need them: a learner that becomes a backup when the
// master is lost may be a little behind the backup that becomes the master, and should not have to copy everything.
const (
	keptEntries = 512
	keptBytes   = 4 << 20
)

// log is the order of what the masters executed. Entries are named by (term, index): a term has one master, which sends
// an entry only when its disk has it. So entries of equal names are equal, and so is all that comes before them.
type log struct {
	entries []*peerv1.LogEntry // behind floor
	floor   uint64
	bytes   int
	history []*peerv1.TermStart // by term; the last may have no entries yet
}

func (l *log) last() uint64 { return l.floor + uint64(len(l.entries)) }

// behind lists the entries behind an index, which is not below the floor.
func (l *log) behind(index uint64) []*peerv1.LogEntry {
	return l.entries[min(index-l.floor, uint64(len(l.entries))):]
}

func (l *log) add(e *peerv1.LogEntry) {
	l.entries = append(l.entries, e)
	l.bytes += e.SizeVT()
	l.begin(e.Term, e.Index)
}

// begin notes that a term begins with an index, unless it has begun.
func (l *log) begin(term, start uint64) {
	if n := len(l.history); n == 0 || l.history[n-1].Term < term {
		l.history = append(slices.Clip(l.history), &peerv1.TermStart{Term: term, Start: start})
	}
}

// cut drops the entries behind an index.
func (l *log) cut(index uint64) {
	for _, e := range l.behind(index) {
		l.bytes -= e.SizeVT()
	}
	l.entries = slices.Clip(l.entries[:index-l.floor])
	l.history = upTo(l.history, index)
}

// upTo is the part of a history that is about the entries up to an index.
func upTo(history []*peerv1.TermStart, index uint64) []*peerv1.TermStart {
	n := len(history)
	for n > 0 && history[n-1].Start > index {
		n--
	}
	return slices.Clip(history[:n])
}

// agrees is the highest index up to which two logs are the same, for the log here, which ends with last, and a
// master's. The master's last term has no end yet: what is here of that term came from there.
func agrees(mine []*peerv1.TermStart, last uint64, theirs []*peerv1.TermStart) uint64 {
	for i := len(mine) - 1; i >= 0; i-- {
		j, found := slices.BinarySearchFunc(theirs, mine[i].Term, func(s *peerv1.TermStart, term uint64) int {
			return int(int64(s.Term) - int64(term))
		})
		if !found || theirs[j].Start != mine[i].Start {
			continue
		}
		end := last
		if i+1 < len(mine) {
			end = mine[i+1].Start - 1
		}
		if j+1 < len(theirs) {
			end = min(end, theirs[j+1].Start-1)
		}
		if end >= mine[i].Start {
			return min(end, last)
		}
	}
	return 0
}

// append adds an entry to the log and the disk.
func (st *state) append(e *peerv1.LogEntry) {
	st.log.add(e)
	st.put(logKey(e.Index), e)
	st.unsaved = true
}

// truncate drops entries from the log and the disk.
func (st *state) truncate(index uint64) {
	for _, e := range st.log.behind(index) {
		st.journal.Delete(logKey(e.Index))
	}
	st.log.cut(index)
	if st.own.WholeIndex > index {
		st.own.WholeTerm, st.own.WholeIndex = 0, 0 // the master of a later term has not got it from that one
	}
	st.unsaved = true
}

// trim forgets entries up to an index that nobody needs, but for some.
func (st *state) trim(index uint64) {
	l := &st.log
	n := 0
	for n < len(l.entries) && l.entries[n].Index <= index && (l.last()-l.entries[n].Index >= st.keptEntries() || l.bytes > keptBytes) {
		l.bytes -= l.entries[n].SizeVT()
		st.journal.Delete(logKey(l.entries[n].Index))
		n++
	}
	if n > 0 {
		l.floor += uint64(n)
		l.entries = slices.Clone(l.entries[n:])
		st.unsaved = true
	}
}

// keptEntries is how many entries are kept although nobody is known to need them.
func (st *state) keptEntries() uint64 { return min(keptEntries, uint64(st.config.Sync.Kept)) }

// loadLog reads the entries that are on disk.
func (st *state) loadLog() {
	st.log.floor, st.log.history = st.own.Floor, st.own.History
	st.journal.Scan([]byte{logRecord}, func(key, raw []byte) bool {
		if key[0] != logRecord {
			return false
		}
		e := &peerv1.LogEntry{}
		if err := e.UnmarshalVT(raw); err != nil {
			st.outbox.Fault("an entry of the log on disk is damaged: %w", err)
			return false
		}
		if err := bounds.Record(e); err != nil {
			st.outbox.Fault("an entry of the log on disk is damaged: %w", err)
			return false
		}
		if e.Index != st.log.last()+1 {
			st.outbox.Fault("entry %d of the log on disk follows entry %d", e.Index, st.log.last())
			return false
		}
		st.log.add(e)
		return true
	})
}
