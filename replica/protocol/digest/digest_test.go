package digest

import (
	"testing"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
)

type operation struct {
	deadline protocol.Instant
	value    []byte
	memory   int `digest:"-"`
}

type state struct {
	all  map[uint64]*operation
	next *operation
	list []*operation
}

type work struct {
	number int
	over   bool
}

func (w *work) Ended() bool { return w.over }

func TestWhatCounts(t *testing.T) {
	one, same := &operation{value: []byte{}}, &operation{value: []byte{}, memory: 1}
	for name, c := range map[string]struct {
		a, b  any
		equal bool
	}{
		"order of a map": {map[int]int{1: 1, 2: 2, 3: 3}, map[int]int{3: 3, 2: 2, 1: 1}, true},
		"value of a map": {map[int]int{1: 1, 2: 2}, map[int]int{1: 2, 2: 1}, false},
		"tagged field":   {one, same, true},
		"nil bytes":      {operation{value: []byte{}}, operation{}, false},
		"nil list":       {state{list: []*operation{}}, state{}, true},
		"nil pointer":    {state{list: []*operation{nil}}, state{list: []*operation{{}}}, false},
		"shared element": {
			state{next: one, list: []*operation{one}}, state{next: one, list: []*operation{same}}, false,
		},
		"one in a map": {
			state{next: one, all: map[uint64]*operation{1: one}},
			state{next: same, all: map[uint64]*operation{1: same}}, true,
		},
		"where a list ends":        {[][]byte{{1}, {2, 3}}, [][]byte{{1, 2}, {3}}, false},
		"type behind an interface": {[]any{int32(1)}, []any{int64(1)}, false},
		"small difference":         {1e-12, 2e-12, false},
		"sign":                     {1.5, -1.5, false},
		"function":                 {func() {}, func() { panic("other") }, true},
		"ended in a list":          {[]*work{{number: 1}, {number: 2, over: true}}, []*work{{number: 1}}, true},
		"ended elsewhere":          {work{number: 2, over: true}, work{number: 3, over: true}, false},
		"not ended in a list":      {[]*work{{number: 1}, {number: 2}}, []*work{{number: 1}}, false},
		"message":                  {&peerv1.Message{Op: 1}, &peerv1.Message{Op: 2}, false},
	} {
		if (Of(c.a, 0) == Of(c.b, 0)) != c.equal {
			t.Errorf("%s: equal should be %v", name, c.equal)
		}
	}
}

func TestTimesCountFromNow(t *testing.T) {
	at := func(deadline, now protocol.Instant) State { return Of(operation{deadline: deadline}, now) }
	if at(10, 3) != at(1010, 1003) || at(10, 3) == at(10, 4) {
		t.Error("a deadline does not count by its distance from now")
	}
	if at(0, 5) == at(5, 5) || at(0, 5) != at(0, 6) {
		t.Error("zero, no time, is not apart from now")
	}
}

// What was encoded keeps its size beside its fields, which is no state.
func TestAMessageCountsByItsFields(t *testing.T) {
	fresh, sent := &peerv1.Message{Op: 1, Gus: &peerv1.Gus{Origin: 1}},
		&peerv1.Message{Op: 1, Gus: &peerv1.Gus{Origin: 1}}
	_ = sent.String()
	if Of(fresh, 0) != Of(sent, 0) {
		t.Error("a message that was printed is another one")
	}
}

func TestWhatCannotBeRead(t *testing.T) {
	for name, v := range map[string]any{"channel": make(chan int), "keys that refer": map[*operation]int{{}: 1}} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("it has a digest")
				}
			}()
			Of(v, 0)
		})
	}
}

func BenchmarkOf(b *testing.B) {
	s := state{all: map[uint64]*operation{}}
	for i := range uint64(16) {
		s.all[i] = &operation{deadline: 1, value: []byte("value")}
	}
	for b.Loop() {
		Of(&s, 1)
	}
}

// What has ended makes no other state, and is held all the same.
func TestSizeCountsWhatHasEnded(t *testing.T) {
	few, more := []*work{{number: 1}}, []*work{{number: 1}, {number: 2, over: true}}
	if d := New(); d.Size(more, 0) <= d.Size(few, 0) || d.Of(more, 0) != d.Of(few, 0) {
		t.Errorf("sizes %d and %d", d.Size(more, 0), d.Size(few, 0))
	}
}
