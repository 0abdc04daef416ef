package slab_test

import (
	"bytes"
	"slices"
	"testing"

	"github.com/georegister/georegister/replica/protocol/slab"
)

func TestValuesAreZeroAndTheirReceiversOwn(t *testing.T) {
	var s slab.Of[int]
	var all []*int
	for i := range 100 {
		v := s.New()
		if *v != 0 {
			t.Fatalf("value %d is %d when it is new", i, *v)
		}
		*v = i
		all = append(all, v)
	}
	for i, v := range all {
		if *v != i {
			t.Errorf("value %d became %d", i, *v)
		}
	}
}

// sizes go below, over and far over what shares a block.
var sizes = []int{0, 1, 10, 500, 512, 513, 5000}

func TestBytesDoNotOverlap(t *testing.T) {
	var s slab.Bytes
	var all [][]byte
	for i := range 300 {
		n := sizes[i%len(sizes)]
		b := s.Make(n)
		if len(b) != n || cap(b) != n || slices.ContainsFunc(b, func(c byte) bool { return c != 0 }) {
			t.Fatalf("%d bytes: got %d of capacity %d, or some are not zero", n, len(b), cap(b))
		}
		for k := range b {
			b[k] = byte(i)
		}
		all = append(all, b)
	}
	for i, b := range all {
		if !bytes.Equal(b, bytes.Repeat([]byte{byte(i)}, len(b))) {
			t.Errorf("slice %d was changed", i)
		}
	}
}

func TestStringsAreCopies(t *testing.T) {
	var s slab.Strings
	var all, want []string
	for i := range 300 {
		b := bytes.Repeat([]byte{byte(i)}, sizes[i%len(sizes)])
		want = append(want, string(b))
		all = append(all, s.Of(b))
		clear(b)
	}
	if !slices.Equal(all, want) {
		t.Error("a string is not what it was made of")
	}
}

func TestAListHandsOverWhatWasAdded(t *testing.T) {
	var l slab.List[int]
	if l.Take() != nil {
		t.Error("an empty list hands over something")
	}
	next := 0
	var all, want [][]int
	for round := range 50 {
		var added []int
		for range round * 7 % 90 {
			l.Add(next)
			added = append(added, next)
			next++
		}
		if l.Len() != len(added) {
			t.Errorf("%d were added, and the list has %d", len(added), l.Len())
		}
		taken := l.Take()
		if len(taken) != cap(taken) {
			t.Errorf("an append to what was taken would reach what is added later")
		}
		all, want = append(all, taken), append(want, added)
	}
	for i := range all {
		if !slices.Equal(all[i], want[i]) {
			t.Errorf("round %d took %v, want %v", i, all[i], want[i])
		}
	}
}

func TestBlocksSaveAllocations(t *testing.T) {
	key := []byte("key")
	for name, make := range map[string]func(){
		"values":  func() func() { var s slab.Of[[10]int]; return func() { s.New() } }(),
		"bytes":   func() func() { var s slab.Bytes; return func() { s.Make(20) } }(),
		"strings": func() func() { var s slab.Strings; return func() { s.Of(key) } }(),
		"lists":   func() func() { var l slab.List[int]; return func() { l.Add(1); l.Take() } }(),
	} {
		if n := testing.AllocsPerRun(1000, make); n > 0.1 { // AllocsPerRun rounds down
			t.Errorf("%s: %v allocations each", name, n)
		}
	}
}
