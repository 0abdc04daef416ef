package layered

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// name is a value's, for ever: the process that wrote it, and a number of that process' own.
type name struct {
	writer register.Writer
	number uint64
}

const nameBytes = 16

func nameOf(m *peerv1.Message) name {
	return name{register.Writer(m.Fragment.Writer), m.Fragment.Number}
}

func (n name) append(to []byte) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(to, uint64(n.writer)), n.number)
}

func readName(b []byte) name {
	return name{register.Writer(binary.BigEndian.Uint64(b)), binary.BigEndian.Uint64(b[8:])}
}

// member is who wrote the value.
func (n name) member() view.MemberID { return view.MemberID(n.writer.Member()) }

// metadata is what the inner protocol stores in a large value's place.
type metadata struct {
	name   name
	length int
	sum    [16]byte // of the value: the first bytes of a SHA-256
}

// Values that begin with marker mean something else to the inner protocol than they say: metadata, or a value that
// begins with it, which is escaped. It is no byte of UTF-8.
const (
	marker    = 0xc1
	isEscaped = 0
	isName    = 1
)

const metadataBytes = 2 + nameBytes + 8 + 16

func sumOf(value []byte) [16]byte {
	sum := sha256.Sum256(value)
	return [16]byte(sum[:16])
}

// encode is the metadata as the inner protocol stores it.
func (d metadata) encode() register.Value {
	b := append(make([]byte, 0, metadataBytes), marker, isName)
	b = binary.BigEndian.AppendUint64(d.name.append(b), uint64(d.length))
	return append(b, d.sum[:]...)
}

// reference reads metadata, if a stored value is that.
func reference(v register.Value) (metadata, bool) {
	if len(v) != metadataBytes || v[0] != marker || v[1] != isName {
		return metadata{}, false
	}
	return metadata{readName(v[2:]), int(binary.BigEndian.Uint64(v[2+nameBytes:])), [16]byte(v[metadataBytes-16:])}, true
}

// escape is a value as the inner protocol stores it.
func escape(v register.Value) register.Value {
	if len(v) == 0 || v[0] != marker {
		return v
	}
	return append(register.Value{marker, isEscaped}, v...)
}

func unescape(v register.Value) register.Value {
	if len(v) < 2 || v[0] != marker || v[1] != isEscaped {
		return v
	}
	return v[2:]
}

// Journal keys: a prefix, the length of the register's key, the key, and the value's name. What is known of a fragment
// is apart from its data, so that to look through all of them reads few bytes. Both come behind the registers in a
// state transfer, so that a newcomer has those.
const (
	recordPrefix = 'x'
	piecesPrefix = 'y'
)

// disksKey is where the journal holds the disks that rebuilding members asked with.
var disksKey = []byte{recordPrefix}

// codeKey is where the journal holds how many fragments restore a value, for good.
var codeKey = []byte{recordPrefix, 'k'}

// registers reports whether the inner protocol has records already.
func registers(j *protocol.Journal) (found bool) {
	j.Scan([]byte{'m', 0xff}, func(key, _ []byte) bool { // behind the member's own
		found = key[0] < recordPrefix
		return false
	})
	return found
}

// agree reports why a disk can't be gone on with: what it holds was written with another code, or with none.
func agree(j *protocol.Journal, k int) error {
	raw, ok := j.Get(codeKey)
	switch {
	case ok && (len(raw) != 1 || int(raw[0]) != k):
		return fmt.Errorf("on this disk %v fragments restore a value, and the configuration has %d (erasureCoding.dataFragments, 0 if absent); start it as before", raw, k)
	case !ok && registers(j):
		return errors.New("this disk was written without erasureCoding; start it without, or create a new cluster")
	case !ok:
		j.Put(bytes.Clone(codeKey), []byte{byte(k)})
	}
	return nil
}

func recordKey(prefix byte, key []byte, n name) []byte {
	b := binary.BigEndian.AppendUint32(append(make([]byte, 0, 5+len(key)+nameBytes), prefix), uint32(len(key)))
	return n.append(append(b, key...))
}

// readRecordKey takes a journal key apart, or reports that it is none of a fragment.
func readRecordKey(b []byte) (key []byte, n name, ok bool) {
	if len(b) < 5+nameBytes || len(b) != 5+nameBytes+int(binary.BigEndian.Uint32(b[1:])) {
		return nil, name{}, false
	}
	return b[5 : len(b)-nameBytes], readName(b[len(b)-nameBytes:]), true
}
