package history

import (
	"maps"
	"testing"
	"time"

	"github.com/georegister/georegister/replica/register"
)

func TestLongestGaps(t *testing.T) {
	at := func(site string, returned time.Duration, status register.Status) Operation {
		return Operation{Site: site, Returned: returned, Result: register.Result{Status: status}}
	}
	got := LongestGaps([]Operation{
		at("a", 9, register.OK), at("a", 1, register.OK), at("a", 3, register.OK), at("a", 6, register.Unavailable),
		at("b", 4, register.OK), at("b", 5, register.Unknown), at("c", 7, register.Failed),
		at("d", 2, register.OK), at("d", 3, register.OK), at("d", 3, register.OK),
	})
	want := map[string]Gap{"a": {3, 9}, "d": {2, 3}}
	if !maps.Equal(got, want) {
		t.Errorf("gaps %v, want %v", got, want)
	}
}
