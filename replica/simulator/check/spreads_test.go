package check

import (
	"strings"
	"testing"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/register"
)

func TestWhatIsHeldIsNotCarried(t *testing.T) {
	const own = register.Writer(1)
	back := func(number, timestamp uint64) protocol.Envelope {
		return protocol.Envelope{To: 2, Message: &peerv1.Message{
			Kind: peerv1.Kind_READ2, Op: number, Key: []byte("k"), Timestamp: timestamp, Writer: uint64(own),
		}}
	}
	carries := func(number, timestamp uint64) protocol.Envelope {
		d := &peerv1.Dependency{Key: []byte("k"), Timestamp: timestamp, Writer: uint64(own)}
		return protocol.Envelope{To: 2, Message: &peerv1.Message{
			Kind: peerv1.Kind_READ2, Op: number, After: []*peerv1.Dependency{d},
		}}
	}
	found := func(timestamp uint64) []Found {
		return []Found{{Key: "k", Carstamp: register.Carstamp{Timestamp: timestamp, Writer: own}, Deadline: 100}}
	}
	beside := func(all []Found) []Found { all[0].Others = true; return all }
	type turn struct {
		hears uint64 // an answer to the question of that number; 0: none
		now   protocol.Instant
		found []Found
		sends []protocol.Envelope
	}
	sends := func(all ...protocol.Envelope) []protocol.Envelope { return all }
	first, heard := turn{0, 1, found(5), sends(back(1, 5))}, turn{1, 2, nil, nil}
	for name, c := range map[string]struct {
		turns []turn
		want  string
	}{
		"it carries what is not held": {[]turn{first, heard, {0, 3, nil, sends(carries(2, 6))}}, ""},
		"it carries what is held":     {[]turn{first, heard, {0, 3, nil, sends(carries(2, 5))}}, "knows that"},
		"it hears that while it asks": {[]turn{first, {1, 2, nil, sends(carries(2, 5))}}, ""},
		"it asks again": {[]turn{first, {1, 2, nil, sends(carries(2, 5))}, {0, 3, nil,
			sends(carries(2, 5))}}, ""},
		"it carries what it writes back":   {[]turn{first, {0, 2, nil, sends(carries(2, 4))}}, "are writing back"},
		"it has given that up":             {[]turn{first, {0, 100, nil, sends(carries(2, 5))}}, ""},
		"a session depends on what it has": {[]turn{first, heard, {0, 3, found(5), nil}}, "knows that"},
		"a newer version":                  {[]turn{first, {0, 2, found(6), sends(back(2, 6))}}, ""},
		"the same version":                 {[]turn{first, {0, 2, found(5), nil}}, ""},
		"the same version twice":           {[]turn{first, {0, 2, found(5), sends(back(2, 5))}}, "twice at a time"},
		"a read that is not regular, too":  {[]turn{first, {0, 2, beside(found(5)), sends(back(2, 5))}}, ""},
		"nothing is written back":          {[]turn{first, {0, 2, found(6), nil}}, "does not write it back"},
	} { // order is irrelevant: each is a test
		t.Run(name, func(t *testing.T) {
			var all Spreads
			var got error
			for _, turn := range c.turns {
				if turn.hears != 0 {
					all.Hears(2, &peerv1.Message{Kind: peerv1.Kind_READ2_REPLY, Op: turn.hears})
				}
				if err := all.Turns(turn.found, turn.now, turn.sends); got == nil {
					got = err
				}
			}
			if got == nil != (c.want == "") || got != nil && !strings.Contains(got.Error(), c.want) {
				t.Errorf("%v, want %q", got, c.want)
			}
		})
	}
}
