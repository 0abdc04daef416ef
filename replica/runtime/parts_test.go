package runtime

import (
	"slices"
	"testing"

	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/register"
)

// A result that comes in parts is told part by part, and its operation is in progress until the last; and a protocol
// that asks for it knows the bounds of the true time.
func TestResultsInPartsAndTheTrueTime(t *testing.T) {
	options := quick()
	options.TrueTime = func() protocol.Interval { return protocol.Interval{Earliest: 7, Latest: 9} }
	c := newCluster(t, 1, options, memory)
	type part struct {
		value string
		more  bool
	}
	parts := make(chan part, 3)
	c.replicas[0].Submit(register.Operation{Kind: register.Read, Key: "parts"}, 0, func(r register.Result) {
		parts <- part{string(r.Value), r.More}
	})
	if got, want := []part{<-parts, <-parts}, []part{{"7", true}, {"9", false}}; !slices.Equal(got, want) {
		t.Errorf("the parts are %v, want %v", got, want)
	}
	c.do(0, register.Operation{Kind: register.Read, Key: "parts"}) // the handle is free, and the shard goes on
}
