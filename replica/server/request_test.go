package server

import (
	"strings"
	"testing"
	"time"

	registerv1 "github.com/georegister/georegister/api/register/v1"
	"github.com/georegister/georegister/replica/register"
)

// What a key remembers of sessions is bounded by their issue times, so none may come from the far future.
func TestClocksAheadAreRefused(t *testing.T) {
	o := Options{}
	for _, c := range []struct {
		ahead time.Duration
		want  string
	}{
		{-time.Hour, ""}, {0, ""}, {maxAhead / 2, ""}, {2 * maxAhead, "ahead of this replica's clock"},
	} {
		id := &registerv1.RmwID{Session: 1, Number: 1, IssuedAt: time.Now().Add(c.ahead).UnixMilli()}
		_, err := o.withID(register.Operation{}, id)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v ahead: %v, want %q", c.ahead, err, c.want)
		}
	}
}
