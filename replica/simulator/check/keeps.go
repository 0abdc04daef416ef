package check

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/simulator/field"
)

// Bounds are what a partition may keep on a disk, once all is quiet.
type Bounds struct {
	Tuning   *protocol.Tuning
	Entries  int    // of the log, that a follower keeps, and as many that are not applied
	Unsynced uint64 // the most entries that a master had which were not synced, or more
	InFlight int    // how many operations a session has in progress
}

// Keeps judges what a member's disk keeps of a partition whose log is synced as far as it goes: sessions and answers
// within their bounds, and, of who has followed its term's master, no more of the log, nor less where it has not copied
// the state since.
func (h *Holder) Keeps(b *Bounds, follows bool) error {
	own, last := h.curpOwn(), h.curpLast()
	if own == nil || own.Copying || own.Through != 0 || own.Commit != last {
		return nil
	}
	entries := last - h.curpFloor()
	followed := follows && entries > 0 && field.Number(h.curpEntry(own.Applied), entryOfTerm) == own.Term // it has trimmed
	if followed && entries > 2*uint64(b.Entries) {
		return fmt.Errorf("it keeps %d entries of its log, and may keep %d", entries, 2*b.Entries)
	}
	if entries == 0 && last > own.Start && uint64(b.Entries) > b.Unsynced && b.Tuning.LogBytes == 0 {
		return fmt.Errorf("it keeps no entry of its log up to %d, and is to keep the last %d", last, b.Entries)
	}
	return h.keepsSessions(b, last)
}

// sessionsKept is how many sessions of clients a partition remembers at most.
func sessionsKept(t *protocol.Tuning) int { return cmp.Or(t.Sessions, 16384) }

// LooksAfter is after how many entries a master looks at least which sessions can be forgotten.
func LooksAfter(t *protocol.Tuning) uint64 { return uint64(min(sessionsKept(t), 1024)) }

// keepsSessions judges the sessions of clients after an entry. The master has looked at them some entries before; what
// was synced by then was forgotten where it was too old, or too much.
func (h *Holder) keepsSessions(b *Bounds, last uint64) error {
	most := sessionsKept(b.Tuning)
	looked := last - min(last, LooksAfter(b.Tuning))
	synced := looked - min(looked, b.Unsynced)
	all, latest := 0, int64(0)
	var oldest int64
	answers := map[uint64]int{} // by session; never ranged over
	var clients []uint64
	records := maps.Clone(h.Records)
	for key, raw := range h.executed().ahead { // order is irrelevant: all keys are others
		if records[key] = raw; raw == nil {
			delete(records, key)
		}
	}
	for key, raw := range records { // order is irrelevant: what is found is counted, and the clients are sorted
		switch {
		case key[0] == curpDone && len(key) == 17:
			answers[binary.BigEndian.Uint64([]byte(key[1:9]))]++
		case key[0] == curpSession && len(key) == 9:
			var s peerv1.PartitionSession
			if s.UnmarshalVT(raw) != nil || s.SeenAt == 0 {
				continue
			}
			clients = append(clients, binary.BigEndian.Uint64([]byte(key[1:])))
			if s.UsedAt <= looked {
				latest = max(latest, s.SeenAt)
			}
			if s.UsedAt <= synced {
				if all++; all == 1 || s.SeenAt < oldest {
					oldest = s.SeenAt
				}
			}
		}
	}
	if all > most || all > 0 && oldest < latest-keptFor(b.Tuning) {
		return fmt.Errorf("it remembers %d sessions that entry %d or one before it used last, and may %d, the oldest seen "+
			"at %d, and another one at %d", all, synced, most, oldest, latest)
	}
	slices.Sort(clients)
	for _, id := range clients {
		if most := cmp.Or(b.Tuning.Answers, 64) + 2*b.InFlight + replayed; answers[id] > most {
			return fmt.Errorf("it remembers %d answers of session %d", answers[id], id)
		}
	}
	return nil
}

// replayed is how many answers of a session may come to its bound as a new master has replayed what witnesses had saved.
const replayed = 4
