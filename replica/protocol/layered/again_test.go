package layered

import (
	"bytes"
	"strings"
	"testing"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// A read whose value is over whenever it asks for fragments begins anew 16 times, and then gives up: its client is not
// held for ever by others that write.
func TestAReadBeginsAnewSoOften(t *testing.T) {
	for _, tt := range []struct {
		over int // how often it is, of those times that the read asks
		want register.Status
	}{{0, register.OK}, {1, register.OK}, {16, register.OK}, {17, register.Unavailable}, {1000, register.Unavailable}} {
		w := newWorld(t, 5, 3)
		value := large(500, 1)
		w.write(1, "k", value)
		w.passes = func(_, _ view.MemberID, m *peerv1.Message) bool {
			if m.Fragment != nil && m.Kind == peerv1.Kind_FRAGMENT_FETCHED && w.took[pathAgain] < tt.over {
				m.Fragment.Absent, m.Fragment.Data = true, nil
			}
			return true
		}
		r, done := w.results[w.submit(2, register.Operation{Kind: register.Read, Key: "k"}, 0)]
		again := min(tt.over, 16)
		if !done || r.Status != tt.want || w.took[pathAgain] != again || r.RoundTrips != 2*(again+1) {
			t.Errorf("over %d times: the read ends: %v, with %v after %d round trips; it began anew %d times", tt.over, done, r.Status, r.RoundTrips, w.took[pathAgain])
		}
		if tt.want == register.OK && !bytes.Equal(r.Value, value) {
			t.Errorf("over %d times: the read returns %d bytes", tt.over, len(r.Value))
		}
		if tt.want != register.OK && !strings.Contains(r.Message, "replaced 16 times") {
			t.Errorf("over %d times: the message is %q", tt.over, r.Message)
		}
		if pending := w.nodes[1].Pending(); pending != 0 {
			t.Errorf("over %d times: %d operations are pending", tt.over, pending)
		}
	}
}
