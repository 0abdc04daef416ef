package member

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
)

const (
	// leastPage and mostPage bound the records of one page of a state transfer, give or take one record.
	leastPage = 256 << 10
	mostPage  = 1 << 20
	// pageRate is how many bytes a second pages of one source are to bring, where they may grow for it.
	pageRate = 10 * leastPage
)

// pageBytes is the size of a page. One is asked for after the other, so they are the larger the longer they are under
// way, unless the tuning says how large they are.
func pageBytes(c *protocol.Config) uint64 {
	if c.Tuning.PageBytes > 0 {
		return uint64(c.Tuning.PageBytes)
	}
	return uint64(min(max(leastPage, c.Retry.Seconds()*pageRate), mostPage))
}

// pages are those of a state transfer, made of the records that members send each other.
type pages struct {
	journal *protocol.Journal
	bytes   uint64 // of a page
	printer printer
}

func isOwn(key []byte) bool { return len(key) > 0 && key[0] == ownPrefix }

// scan visits the records that members send each other, behind from and up to until (empty: to the end), as long as
// visit wants more. It returns the key up to which it went, and whether nothing lies behind that.
func (p *pages) scan(from, until []byte, visit func(key, value []byte) (more bool)) (end []byte, all bool) {
	end, all = bytes.Clone(from), true
	more := true
	p.journal.Scan(from, func(key, value []byte) bool {
		switch {
		case isOwn(key):
			return true
		case len(until) > 0 && bytes.Compare(key, until) > 0:
			end, all = until, false
			return false
		case !more:
			all = false
			return false
		}
		more = visit(key, value)
		end = append(end[:0], key...)
		return true
	})
	return end, all
}

// print stands for a record: those of the same print are the same.
type print [16]byte

// printer makes prints.
type printer struct{ record []byte }

func (p *printer) of(key, value []byte) print {
	p.record = binary.AppendUvarint(p.record[:0], uint64(len(key)))
	p.record = append(append(p.record, key...), value...)
	sum := sha256.Sum256(p.record)
	return print(sum[:len(print{})])
}

// tell lists the prints of this member's records behind from and up to until (empty: to the end), of as many as bytes,
// in a question for the page behind from. It returns the bytes of those records.
func (p *pages) tell(from, until []byte, bytes uint64) (t *peerv1.Transfer, told uint64) {
	t = &peerv1.Transfer{From: from, Until: until}
	end, all := p.scan(from, until, func(key, value []byte) bool {
		print := p.printer.of(key, value)
		t.Prints = append(t.Prints, print[:]...)
		told += uint64(len(key) + len(value))
		return told < bytes
	})
	if !all {
		t.Until = end
	}
	return t, told
}

// prints reads a list of prints. A damaged one says nothing, so that everything is sent.
func prints(list []byte) map[print]bool {
	if len(list)%len(print{}) != 0 {
		return nil
	}
	all := make(map[print]bool, len(list)/len(print{}))
	for ; len(list) > 0; list = list[len(print{}):] {
		all[print(list[:len(print{})])] = true
	}
	return all
}

// page answers a question. All of it is from the journal, which holds what this member voted on before it came to its
// epoch, and leaves when that is durable.
func (p *pages) page(asked *peerv1.Transfer) *peerv1.Transfer {
	t := &peerv1.Transfer{From: asked.GetFrom()}
	there := prints(asked.GetPrints())
	size := uint64(0)
	t.Until, t.Last = p.scan(t.From, asked.GetUntil(), func(key, value []byte) bool {
		bytes := uint64(len(key) + len(value))
		if len(there) > 0 && there[p.printer.of(key, value)] {
			t.Compared += bytes
			return true
		}
		size += bytes
		t.Records = append(t.Records, record(key, value))
		return size < p.bytes
	})
	if !t.Last {
		t.Remaining = p.journal.Remaining(t.Until)
	}
	return t
}

// record is a copy of a record.
func record(key, value []byte) *peerv1.Record {
	both := append(append(make([]byte, 0, len(key)+len(value)), key...), value...)
	return &peerv1.Record{Key: both[:len(key):len(key)], Value: both[len(key):]}
}
