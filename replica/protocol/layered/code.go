package layered

import (
	"fmt"

	"github.com/klauspost/reedsolomon"

	"github.com/georegister/georegister/replica/view"
)

// code is a systematic Reed-Solomon code over GF(2^8): any k of its fragments restore a value. A member's fragment is
// that of its ID, the first one that of ID 1, which in this code does not depend on how many there are. So members that
// come later have fragments of their own of values that are older than they.
type code struct {
	k, n    int
	encoder reedsolomon.Encoder `digest:"-"` // made of k and n
}

// maxMember is the highest ID that has a fragment.
const maxMember = 256

func newCode(k int, v view.View) (*code, error) {
	n := k + 1
	for _, m := range v.Members {
		n = max(n, int(m.ID))
	}
	if n > maxMember {
		return nil,
			fmt.Errorf("member %d: with fragments (erasureCoding) members are numbered up to %d; create a new cluster",
				n, maxMember)
	}
	// No goroutines: the caller is one of many shards.
	encoder, err := reedsolomon.New(k, n-k, reedsolomon.WithMaxGoroutines(1))
	if err != nil {
		return nil, fmt.Errorf("a code of %d data fragments: %w", k, err)
	}
	return &code{k: k, n: n, encoder: encoder}, nil
}

// index is that of a member's fragment.
func index(id view.MemberID) uint32 { return uint32(id) - 1 }

// encode returns the fragments of a value that is not empty, by index. The first ones share its bytes.
func (c *code) encode(value []byte) ([][]byte, error) {
	fragments, err := c.encoder.Split(value[:len(value):len(value)]) // what it pads with is not behind the value
	if err != nil {
		return nil, err
	}
	return fragments, c.encoder.Encode(fragments)
}

// restore returns the value of that length from k of its fragments.
func (c *code) restore(pieces map[uint32][]byte, length int) ([]byte, error) {
	fragments, err := c.complete(pieces, func(i int) bool { return i < c.k })
	if err != nil {
		return nil, err
	}
	value := make([]byte, 0, c.k*len(fragments[0]))
	for _, f := range fragments[:c.k] {
		value = append(value, f...)
	}
	if length > len(value) {
		return nil, fmt.Errorf("%d fragments of %d bytes are less than a value of %d", c.k, len(fragments[0]), length)
	}
	return value[:length:length], nil
}

// rebuild returns one fragment from k others.
func (c *code) rebuild(pieces map[uint32][]byte, index uint32) ([]byte, error) {
	fragments, err := c.complete(pieces, func(i int) bool { return i == int(index) })
	if err != nil {
		return nil, err
	}
	return fragments[index], nil
}

// complete returns fragments by index: those given, and those needed.
func (c *code) complete(pieces map[uint32][]byte, needs func(int) bool) ([][]byte, error) {
	fragments, required := make([][]byte, c.n), make([]bool, c.n)
	for i, data := range pieces { // order is irrelevant: each to its own place
		if int(i) < c.n {
			fragments[i] = data
		}
	}
	for i := range required {
		required[i] = needs(i) && fragments[i] == nil
	}
	return fragments, c.encoder.ReconstructSome(fragments, required)
}
