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
			r.Asks("k", register.Value("b"))
			for range c.asked {
				r.Asks("k", register.Value("a"))
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
