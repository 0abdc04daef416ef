package member

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
)

// pageBytes bounds the records of one page of a state transfer, give or take one record.
const pageBytes = 256 << 10

func isOwn(key []byte) bool { return len(key) > 0 && key[0] == ownPrefix }

// scan visits the records that members send each other, behind from and up to until (nil: to the end), about a page of
// them. It reports whether that are all that lie behind from.
func (m *Member) scan(from, until []byte, visit func(key, value []byte)) (all bool) {
	all = true
	size := 0
	m.journal.Scan(from, func(key, value []byte) bool {
		switch {
		case isOwn(key):
			return true
		case size >= pageBytes || until != nil && bytes.Compare(key, until) > 0:
			all = false
			return false
		}
		size += len(key) + len(value)
		visit(key, value)
		return true
	})
	return all
}

// summary stands for a range of records.
type summary struct {
	until  []byte // the last key
	digest []byte
	bytes  uint64
	all    bool // nothing lies behind until
}

// sum sums up what a page from there on would hold. Two members that have the same records behind from and up to until
// come to the same summary: a page is full at the same record.
func (m *Member) sum(from, until []byte) (s summary) {
	hash := sha256.New()
	var lengths [8]byte
	s.all = m.scan(from, until, func(key, value []byte) {
		binary.BigEndian.PutUint32(lengths[:4], uint32(len(key)))
		binary.BigEndian.PutUint32(lengths[4:], uint32(len(value)))
		hash.Write(lengths[:])
		hash.Write(key)
		hash.Write(value)
		s.until = append(s.until[:0], key...)
		s.bytes += uint64(len(key) + len(value))
	})
	s.digest = hash.Sum(nil)
	return s
}

// page answers a request for records. All of them are from the journal, which holds what this member voted on before
// it came to its epoch, and leave when they are durable.
func (m *Member) page(asked *peerv1.Transfer) *peerv1.Transfer {
	t := &peerv1.Transfer{From: asked.GetFrom()}
	end := t.From
	if len(asked.GetUntil()) > 0 {
		own := m.sum(t.From, asked.Until)
		if bytes.Equal(own.digest, asked.Digest) {
			t.Until, t.Same, t.Last = asked.Until, true, own.all
			end = t.Until
		}
	}
	if !t.Same {
		t.Last = m.scan(t.From, nil, func(key, value []byte) {
			t.Records = append(t.Records, &peerv1.Record{Key: bytes.Clone(key), Value: bytes.Clone(value)})
		})
		if n := len(t.Records); n > 0 {
			end = t.Records[n-1].Key
		}
	}
	if !t.Last {
		t.Remaining = m.journal.Remaining(end)
	}
	return t
}
