package check

import (
	"strings"
	"testing"
	"time"

	"github.com/georegister/georegister/replica/history"
	"github.com/georegister/georegister/replica/register"
)

func TestCarstampsAreInTheOrderOfWhatClientsSaw(t *testing.T) {
	op := func(kind register.Kind, from, to int, timestamp uint64, value string) history.Operation {
		o := history.Operation{
			Client: "c1", Request: register.Operation{Kind: kind, Key: "k"},
			Invoked: time.Duration(from), Returned: time.Duration(to),
			Result: register.Result{Status: register.OK, Carstamp: register.Carstamp{Timestamp: timestamp}},
		}
		if kind == register.Write {
			o.Request.Value = register.Value(value)
		} else {
			o.Result.Value = register.Value(value)
		}
		return o
	}
	const w, r = register.Write, register.Read
	stale := op(r, 5, 6, 1, "a")
	stale.Request.Stale = true
	unknown := op(r, 5, 6, 1, "a")
	unknown.Result.Status = register.Unknown
	elsewhere := op(r, 5, 6, 1, "b")
	elsewhere.Request.Key = "l"
	for name, c := range map[string]struct {
		operations []history.Operation
		want       string // in the reason; empty: all is in order
	}{
		"in order":                    {[]history.Operation{op(w, 1, 2, 1, "a"), op(r, 3, 4, 1, "a"), op(w, 5, 6, 2, "b")}, ""},
		"at one time":                 {[]history.Operation{op(w, 1, 4, 2, "b"), op(r, 2, 5, 1, "a")}, ""},
		"what may be otherwise":       {[]history.Operation{op(w, 1, 2, 2, "b"), stale, unknown, elsewhere}, ""},
		"back":                        {[]history.Operation{op(w, 1, 2, 2, "b"), op(r, 3, 4, 1, "a")}, "earlier carstamp 1"},
		"back behind an earlier one":  {[]history.Operation{op(w, 1, 2, 5, "b"), op(w, 1, 3, 2, "c"), op(r, 4, 5, 3, "d")}, "not 5"},
		"a write under a carstamp":    {[]history.Operation{op(r, 1, 2, 1, "a"), op(w, 3, 4, 1, "a")}, "which had ended"},
		"two values of one carstamp":  {[]history.Operation{op(w, 1, 4, 1, "a"), op(r, 2, 5, 1, "b")}, `"a" and "b"`},
		"an absent value and another": {[]history.Operation{op(w, 1, 4, 1, ""), op(r, 2, 5, 1, "b")}, `"" and "b"`},
	} {
		class, why := Ordered(c.operations)
		if (class == Disordered) != (c.want != "") || !strings.Contains(why, c.want) {
			t.Errorf("%s: %s, %q, want %q", name, class, why, c.want)
		}
	}
}
