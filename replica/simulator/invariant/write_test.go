package invariant

import (
	"strings"
	"testing"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/register"
)

func TestAWriteHasOneName(t *testing.T) {
	writer := uint64(register.NewWriter(1, 1, 1))
	write := func(kind peerv1.Kind, timestamp, origin uint64) *peerv1.Message {
		m := &peerv1.Message{Kind: kind, Key: []byte("k"), Present: true, Value: []byte("a"), Timestamp: timestamp, Writer: writer}
		if origin != 0 {
			m.Gus = &peerv1.Gus{Origin: origin}
		}
		return m
	}
	for name, c := range map[string]struct {
		asked int
		all   []*peerv1.Message
		want  string
	}{
		"it goes on":          {1, []*peerv1.Message{write(peerv1.Kind_WRITE2, 2, 0), write(peerv1.Kind_WRITE2, 2, 0)}, ""},
		"it begins again":     {1, []*peerv1.Message{write(peerv1.Kind_WRITE2, 2, 0), write(peerv1.Kind_WRITE2, 3, 0)}, "asked for that 1 times"},
		"two are asked for":   {2, []*peerv1.Message{write(peerv1.Kind_WRITE2, 2, 0), write(peerv1.Kind_WRITE2, 3, 0)}, ""},
		"none is":             {0, []*peerv1.Message{write(peerv1.Kind_WRITE2, 2, 0)}, "asked for that 0 times"},
		"it gets another tag": {1, []*peerv1.Message{write(peerv1.Kind_GUS_WRITE, 2, 2), write(peerv1.Kind_GUS_COMMIT, 3, 2)}, ""},
		"another first tag":   {1, []*peerv1.Message{write(peerv1.Kind_GUS_WRITE, 2, 2), write(peerv1.Kind_GUS_LOCK, 3, 3)}, "asked for that 1 times"},
		"two tags for good":   {0, []*peerv1.Message{write(peerv1.Kind_GUS_FINAL, 2, 2), write(peerv1.Kind_GUS_FINAL, 3, 2)}, "before it was"},
	} { // order is irrelevant: each is a test
		t.Run(name, func(t *testing.T) {
			var r Run
			r.Asks("k", register.Value("b"), nil)
			for range c.asked {
				r.Asks("k", register.Value("a"), nil)
			}
			for _, m := range c.all {
				r.give(Speaker{ID: 1}, m)
				r.tell(Speaker{ID: 1}, m)
			}
			if got := r.Broken; got == nil != (c.want == "") || got != nil && !strings.Contains(got.Error(), c.want) {
				t.Errorf("%v, want %q", got, c.want)
			}
		})
	}
}

func TestAWriteComesAfterWhatItsMemberHas(t *testing.T) {
	writer := register.NewWriter(1, 1, 1)
	write := &peerv1.Message{
		Kind: peerv1.Kind_WRITE2, Key: []byte("k"), Present: true, Value: []byte("a"), Timestamp: 2,
		Writer: uint64(writer),
	}
	d := register.Dependency{Key: "other"}
	d.Carstamp = register.Carstamp{Timestamp: 1, Writer: writer}
	nothing := func([]byte) ([]byte, bool) { return nil, false }
	for name, c := range map[string]struct {
		asks [][]register.Dependency
		want bool
	}{
		"it comes after nothing":          {[][]register.Dependency{nil}, true},
		"it comes after something":        {[][]register.Dependency{{d}}, false},
		"one of two comes after nothing":  {[][]register.Dependency{{d}, nil}, true},
		"two writes come after one thing": {[][]register.Dependency{{d}, {d}}, false},
	} { // order is irrelevant: each is a test
		t.Run(name, func(t *testing.T) {
			var r Run
			for _, after := range c.asks {
				r.Asks("k", register.Value("a"), after)
			}
			if r.comesAfter(Speaker{ID: 1}, write, nothing); r.Broken == nil != c.want {
				t.Error(r.Broken)
			}
		})
	}
}

// Who has others hold something says what.
func TestAnEmptyQuestionHasOthersHoldNothing(t *testing.T) {
	after := []*peerv1.Dependency{{Key: []byte("other"), Timestamp: 1}}
	for name, c := range map[string]struct {
		m    *peerv1.Message
		want bool
	}{
		"a key":                         {&peerv1.Message{Kind: peerv1.Kind_READ2, Key: []byte("k")}, true},
		"what an operation comes after": {&peerv1.Message{Kind: peerv1.Kind_READ2, After: after}, true},
		"neither":                       {&peerv1.Message{Kind: peerv1.Kind_READ2}, false},
		"neither, written":              {&peerv1.Message{Kind: peerv1.Kind_WRITE2}, false},
	} { // order is irrelevant: each is a test
		var r Run
		if r.comesAfter(Speaker{ID: 1}, c.m, disk{}.has(t)); (r.Broken == nil) != c.want {
			t.Errorf("%s: %v", name, r.Broken)
		}
	}
}
