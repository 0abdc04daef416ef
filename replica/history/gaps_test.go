package history

import (
	"maps"
	"testing"
	"time"

	"github.com/georegister/georegister/replica/register"
)

func TestLongestGaps(t *testing.T) {
	at := func(site string, invoked, returned time.Duration, status register.Status) Operation {
		return Operation{Site: site, Invoked: invoked, Returned: returned, Result: register.Result{Status: status}}
	}
	for _, c := range []struct {
		name       string
		operations []Operation
		want       map[string]Gap
	}{
		{"none", nil, map[string]Gap{}},
		{"between two successes", []Operation{
			at("a", 8, 9, register.OK), at("a", 0, 1, register.OK), at("a", 2, 3, register.OK),
			at("a", 5, 6, register.Unavailable),
		}, map[string]Gap{"a": {3, 9}}},
		{"the site's first answer takes long", []Operation{
			at("a", 1, 7, register.OK), at("a", 8, 9, register.OK), at("b", 7, 8, register.OK),
			at("b", 8, 9, register.OK),
		}, map[string]Gap{"a": {1, 7}, "b": {7, 8}}},
		{"a site does not come back", []Operation{
			at("a", 0, 1, register.OK), at("a", 1, 20, register.Unavailable), at("a", 20, 0, register.Unknown),
			at("b", 0, 10, register.OK), at("b", 10, 18, register.OK), at("b", 19, 30, register.Failed),
		}, map[string]Gap{"a": {1, 30}, "b": {18, 30}}},
		{"a site that never answered", []Operation{
			at("a", 2, 5, register.Unknown), at("b", 0, 1, register.OK), at("b", 2, 9, register.OK),
		}, map[string]Gap{"a": {2, 9}, "b": {1, 9}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := LongestGaps(c.operations); !maps.Equal(got, c.want) {
				t.Errorf("gaps %v, want %v", got, c.want)
			}
		})
	}
}
