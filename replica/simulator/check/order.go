package check

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"

	"github.com/georegister/georegister/replica/history"
	"github.com/georegister/georegister/replica/register"
)

// Ordered checks that the carstamps of answers are an order of what clients saw: what began after another operation of
// its key had ended has no smaller one, a write and what it comes after never the same, and one carstamp has one value.
// Most bugs break that before they break what clients see, which takes a reader at the right moment. Reads that may
// be stale, or are regular, are left out.
func Ordered(operations []history.Operation) (Class, string) {
	byKey := map[string][]history.Operation{}
	var keys []string
	for _, o := range operations {
		// An answer that is kept for duplicates may lack it; only what was never written has none.
		bare := o.Result.Carstamp.IsZero() && (o.Request.Kind != register.Read || o.Result.Value.Present())
		if o.Result.Status != register.OK || o.Request.Stale || o.Request.Regular || bare {
			continue
		}
		if byKey[o.Request.Key] == nil {
			keys = append(keys, o.Request.Key)
		}
		byKey[o.Request.Key] = append(byKey[o.Request.Key], o)
	}
	for _, key := range keys {
		if why := ordered(byKey[key]); why != "" {
			return Disordered, fmt.Sprintf("key %q: %s", key, why)
		}
	}
	return "", ""
}

func ordered(operations []history.Operation) string {
	if why := named(operations); why != "" {
		return why
	}
	began, ended := slices.Clone(operations), slices.Clone(operations)
	slices.SortStableFunc(began, func(a, b history.Operation) int { return cmp.Compare(a.Invoked, b.Invoked) })
	slices.SortStableFunc(ended, func(a, b history.Operation) int { return cmp.Compare(a.Returned, b.Returned) })
	var last *history.Operation // of those that have ended, the one of the largest carstamp
	next := 0
	for i := range began {
		o := &began[i]
		for ; next < len(ended) && ended[next].Returned < o.Invoked; next++ {
			if last == nil || last.Result.Carstamp.Less(ended[next].Result.Carstamp) {
				last = &ended[next]
			}
		}
		if last == nil {
			continue
		}
		switch c := o.Result.Carstamp.Compare(last.Result.Carstamp); {
		case c < 0:
			return fmt.Sprintf("%s of %s began after %s of %s had ended, and has the earlier carstamp %v, not %v",
				o.Request.Kind, o.Client, last.Request.Kind, last.Client, o.Result.Carstamp, last.Result.Carstamp)
		case c == 0 && o.Request.Kind == register.Write:
			return fmt.Sprintf("a write of %s has the carstamp %v of %s of %s, which had ended",
				o.Client, o.Result.Carstamp, last.Request.Kind, last.Client)
		}
	}
	return ""
}

// named reports a carstamp under which two values were read or written.
func named(operations []history.Operation) string {
	values := map[register.Carstamp]register.Value{}
	for _, o := range operations {
		value := o.Result.Value
		switch o.Request.Kind {
		case register.RMW:
			continue
		case register.Write:
			value = o.Request.Value
		}
		other, known := values[o.Result.Carstamp]
		if known && (!bytes.Equal(other, value) || other.Present() != value.Present()) {
			return fmt.Sprintf("%q and %q have the carstamp %v, of %s of %s",
				other, value, o.Result.Carstamp, o.Request.Kind, o.Client)
		}
		values[o.Result.Carstamp] = value
	}
	return ""
}
