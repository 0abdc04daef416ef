package member

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/bounds"
	"github.com/georegister/georegister/replica/protocol/quorum"
	"github.com/georegister/georegister/replica/view"
)

// transferKey is where the journal holds the TransferRecord.
var transferKey = []byte{ownPrefix, 't'}

// patience is how many times in a row a page is asked for in vain before another source is tried.
const patience = 3

// comparedCost says how much of the rate records take that are compared and not sent: one byte in so many. Both members
// read and sum them up.
const comparedCost = 2

// source is a member whose state is fetched, and how much of it is here.
type source struct {
	incarnation view.Incarnation // of the disk that it has, which is the one that is fetched
	after       []byte           // the storage key behind which the next page starts
	done        bool

	// What this process knows beside that.
	asked     bool             // a page is under way
	until     []byte           // what was told of the records here in the question ends there; empty: it was everything
	told      uint64           // bytes of those records
	reach     uint64           // bytes of records to tell of in the next question
	due       protocol.Instant // when to ask again
	vain      int              // how many times it was asked in vain, in a row
	left      int              // how many times another source was tried in its place
	passed    uint64           // bytes sent or compared
	remaining uint64           // it said so
}

// transfer is how far the states of others are here, for a newcomer or for a member in a joint view.
type transfer struct {
	pages
	throttle
	config       *protocol.Config
	incarnations *quorum.Incarnations
	effects      *effects
	before       view.View // whose members have the state that a member in a joint view fetches
	sources      map[view.MemberID]*source

	records, bytesSent, bytesSame uint64 // protocol.Change's Records, Bytes and SameBytes
}

// known is the source of a member's present disk, or nil.
func (t *transfer) known(id view.MemberID) *source {
	if s := t.sources[id]; s != nil && s.incarnation == t.incarnations.Of(id) {
		return s
	}
	return nil
}

// source is known, and begins it anew if there is none: what was fetched of a disk that is lost counts for nothing.
func (t *transfer) source(id view.MemberID) *source {
	if s := t.known(id); s != nil {
		return s
	}
	s := &source{incarnation: t.incarnations.Of(id), reach: t.bytes}
	t.sources[id] = s
	return s
}

// missing is how many members' state is still to be fetched: with what this member has itself, that of a majority of
// those before the change. Everything that ended in an earlier view was voted on by one of any such majority.
func (t *transfer) missing() int {
	n := t.before.Majority()
	for _, member := range t.before.Members {
		if s := t.known(member.ID); s != nil && s.done || member.ID == t.config.Self {
			n--
		}
	}
	return max(0, n)
}

// candidates are those before the change whose state is not here yet: those that were left less often first, then
// the nearest.
func (t *transfer) candidates() []view.MemberID {
	left := func(id view.MemberID) int {
		if s := t.known(id); s != nil {
			return s.left
		}
		return 0
	}
	var ids []view.MemberID
	for _, id := range t.config.Nearest {
		if s := t.known(id); t.before.Index(id) >= 0 && (s == nil || !s.done) {
			ids = append(ids, id)
		}
	}
	slices.SortStableFunc(ids, func(a, b view.MemberID) int { return cmp.Compare(left(a), left(b)) })
	return ids
}

// askPages asks sources for their next pages. One of them is ahead, and sends nearly everything. The others follow it:
// they are asked for what lies before its cursor, of which they send what differs, since the rest is here. So all of
// them are at work, and nearly nothing is sent twice. One that does not answer leads nobody.
func (t *transfer) askPages(now protocol.Instant, ids []view.MemberID) {
	var ahead *source
	whole := false // everything that one of them had is here
	for _, id := range t.config.Nearest {
		switch s := t.known(id); {
		case s == nil:
		case s.done:
			whole = true
		case s.vain == 0 && slices.Contains(ids, id) && (ahead == nil || bytes.Compare(s.after, ahead.after) > 0):
			ahead = s
		}
	}
	for _, id := range ids {
		s := t.known(id)
		switch {
		case s == nil:
		case whole || ahead == nil || s == ahead:
			t.askPage(now, id, s, nil)
		case bytes.Compare(s.after, ahead.after) < 0:
			t.askPage(now, id, s, ahead.after)
		}
	}
}

// askPage asks a source for its next page, up to until, once the rate allows it, and again when it does not answer in
// time.
//
// The question tells what is here, so that the source leaves it out. This process holds it, and replaces it by what is
// newer only: to adopt the source's copy would change nothing, now or when the answer comes. So of all answers to
// questions of this process, whatever they told, each is right that goes on where this member is.
func (t *transfer) askPage(now protocol.Instant, id view.MemberID, s *source, until []byte) {
	if s.done || s.asked && now < s.due || !t.open(now) {
		return
	}
	if s.asked {
		s.vain++
	}
	s.asked = true
	// A page may take longer than other messages. To ask for it again and again would make the way even slower.
	s.due = now.Add(t.config.Retry << min(s.vain, patience-1))
	question, told := t.tell(s.after, until, s.reach)
	s.until, s.told = question.Until, told
	t.effects.reply(id, &peerv1.Message{Kind: peerv1.Kind_TRANSFER, Op: t.config.Nonce, Transfer: question})
}

// take adopts a page, while the protocol goes on: what is newer here stays. It reports whether that went on with a
// source. Whether a page need not say which process asked for it is what the member knows (unnamed).
func (t *transfer) take(
	now protocol.Instant, from view.MemberID, msg *peerv1.Message, inner Inner, unnamed bool,
) bool {
	page := msg.GetTransfer()
	size := uint64(0)
	for _, r := range page.GetRecords() {
		size += uint64(len(r.Key) + len(r.Value))
	}
	t.spend(now, size)
	s := t.known(from)
	if s == nil || s.done || !bytes.Equal(page.GetFrom(), s.after) || msg.Op != t.config.Nonce && !unnamed {
		return false // it was asked for twice, or by an earlier process or disk
	}
	end := page.GetUntil()
	if n := len(page.GetRecords()); n > 0 && len(end) == 0 {
		end = page.Records[n-1].Key
	}
	if !page.GetLast() && bytes.Compare(end, s.after) <= 0 {
		return false // it leads nowhere
	}
	if err := t.adopt(inner, page.GetRecords()); err != nil {
		t.config.Took("member.page-refused")
		t.effects.refuse(from, fmt.Errorf("a page of its state is refused: %w", err))
		return false // it is no answer: the source is asked again, and soon another one in its place
	}
	compared := min(page.GetCompared(), s.told)
	t.spend(now, compared/comparedCost)
	t.records += uint64(len(page.GetRecords()))
	t.bytesSent += size
	t.bytesSame += compared
	if bytes.Compare(end, s.until) < 0 {
		s.reach = max(s.reach/2, t.bytes/16) // the page was full before it came to what was told of
	} else {
		s.reach = min(2*s.reach, t.bytes)
	}
	s.after, s.done, s.remaining = bytes.Clone(end), page.GetLast(), page.GetRemaining()
	s.passed += size + compared
	s.asked, s.vain = false, 0
	t.save()
	return true
}

// adopt merges records up to the first that no sound member has.
func (t *transfer) adopt(inner Inner, records []*peerv1.Record) error {
	keys := make([][]byte, len(records))
	for i, r := range records {
		keys[i] = r.Key
	}
	t.journal.Load(keys) // each is compared with the one here
	for _, r := range records {
		if !isOwn(r.Key) {
			if err := inner.Adopt(r.Key, r.Value); err != nil {
				return fmt.Errorf("record %.64q: %w", r.Key, err)
			}
		}
	}
	return nil
}

// recall goes on with the transfer that an earlier process began in this epoch.
func (t *transfer) recall() error {
	raw, ok := t.journal.Get(transferKey)
	if !ok {
		return nil
	}
	record := &peerv1.TransferRecord{}
	if err := bounds.Decode(raw, record, bounds.Record); err != nil {
		return fmt.Errorf("the record of the state transfer on disk is damaged: %w", err)
	}
	if record.Epoch != t.config.View.Epoch {
		return nil
	}
	t.records, t.bytesSent, t.bytesSame = record.Records, record.Bytes, record.SameBytes
	for _, s := range record.Sources {
		id, incarnation := view.MemberID(s.Member), view.Incarnation(s.Incarnation)
		t.incarnations.Learn(id, incarnation) // the member's record need not know of that disk
		t.sources[id] = &source{incarnation: incarnation, after: s.After, done: s.Done, reach: t.bytes}
	}
	return nil
}

// save writes how far the transfer is, in one batch with the records that came.
func (t *transfer) save() {
	record := &peerv1.TransferRecord{
		Epoch: t.config.View.Epoch, Records: t.records, Bytes: t.bytesSent, SameBytes: t.bytesSame,
	}
	for _, member := range t.config.View.Members {
		if s := t.sources[member.ID]; s != nil {
			record.Sources = append(record.Sources, &peerv1.TransferSource{
				Member: uint32(member.ID), Incarnation: uint32(s.incarnation), After: s.after, Done: s.done,
			})
		}
	}
	t.effects.put(t.journal, transferKey, record, "record of the state transfer")
}

// forget drops what is done with.
func (t *transfer) forget() {
	clear(t.sources)
	if _, ok := t.journal.Get(transferKey); ok {
		t.journal.Delete(transferKey)
	}
}

// remaining estimates what is still to come of members. Nobody tells how much one has that was not asked yet: as much as
// the others, as far as they were heard since this process began. A member that joins again asks all of those that
// adopted it, and only them (adopted).
func (t *transfer) remaining(wanted []view.MemberID, adopted bool) (bytes uint64) {
	whole := uint64(0)
	for _, s := range t.sources { // order is irrelevant: a maximum
		whole = max(whole, s.passed+s.remaining)
	}
	for _, id := range wanted {
		switch s := t.known(id); {
		case s == nil && adopted:
		case s != nil && (s.done || s.passed > 0):
			bytes += s.remaining
		default:
			bytes += whole
		}
	}
	return bytes
}
