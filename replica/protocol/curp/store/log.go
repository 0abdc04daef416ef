package store

import (
	"cmp"
	"slices"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
)

// Log is the order of what the masters executed. Entries are named by (term, index): a term has one master, which sends
// an entry only when its disk has it. So entries of equal names are equal, and so is all that comes before them.
// Other packages only read its fields.
type Log struct {
	Floor   uint64              // the entries up to this index are not kept any more
	Bytes   int                 // of the entries that are kept
	History []*peerv1.TermStart // by term; the last may have no entries yet

	entries []*peerv1.LogEntry
}

// Last is the index of the last entry.
func (l *Log) Last() uint64 { return l.Floor + uint64(len(l.entries)) }

// Behind lists the entries behind an index that are kept.
func (l *Log) Behind(index uint64) []*peerv1.LogEntry {
	return l.entries[min(max(index, l.Floor)-l.Floor, uint64(len(l.entries))):]
}

// Between lists the entries behind an index, up to another one, that are kept.
func (l *Log) Between(index, to uint64) []*peerv1.LogEntry {
	entries := l.Behind(index)
	return entries[:len(entries)-len(l.Behind(max(index, to)))]
}

func (l *Log) add(e *peerv1.LogEntry) {
	l.entries = append(l.entries, e)
	l.Bytes += e.SizeVT()
	l.begin(e.Term, e.Index)
}

// begin notes that a term begins with an index, unless it has begun.
func (l *Log) begin(term, start uint64) {
	if n := len(l.History); n == 0 || l.History[n-1].Term < term {
		l.History = append(slices.Clip(l.History), &peerv1.TermStart{Term: term, Start: start})
	}
}

// BeginTerm notes that the entries from now on are of a term.
func (l *Log) BeginTerm(term uint64) { l.begin(term, l.Last()+1) }

// ForgetEmptyTerms has the history end with the term of the last entry.
func (l *Log) ForgetEmptyTerms() { l.History = l.HistoryUpTo(l.Last()) }

// cut drops the entries behind an index.
func (l *Log) cut(index uint64) {
	for _, e := range l.Behind(index) {
		l.Bytes -= e.SizeVT()
	}
	l.entries = slices.Clip(l.entries[:index-l.Floor])
	l.History = l.HistoryUpTo(index)
}

// shift drops the first n entries, whose bytes do not count any more.
func (l *Log) shift(n int) {
	l.Floor += uint64(n)
	l.entries = slices.Clone(l.entries[n:])
}

// HistoryUpTo is the part of the history that is about the entries up to an index.
func (l *Log) HistoryUpTo(index uint64) []*peerv1.TermStart {
	n := len(l.History)
	for n > 0 && l.History[n-1].Start > index {
		n--
	}
	return slices.Clip(l.History[:n])
}

// Agrees is the highest index up to which this log and a master's, of which the history is given, are the same. The
// master's last term has no end yet: what is here of that term came from there.
func (l *Log) Agrees(theirs []*peerv1.TermStart) uint64 {
	for i, mine := range slices.Backward(l.History) {
		j, found := slices.BinarySearchFunc(theirs, mine.Term, func(s *peerv1.TermStart, term uint64) int {
			return cmp.Compare(s.Term, term)
		})
		if !found || theirs[j].Start != mine.Start {
			continue
		}
		end := l.Last()
		for _, next := range slices.Concat(l.History[i+1:], theirs[j+1:]) {
			end = min(end, next.Start-1)
		}
		if end >= mine.Start {
			return end
		}
	}
	return 0
}
