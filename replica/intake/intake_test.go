package intake

import (
	"slices"
	"testing"
)

func TestInputsOfOneRecordKeepTheirOrder(t *testing.T) {
	var q Queue[int]
	known := map[string]bool{"sa": true}
	isKnown := func(record []byte) bool { return known[string(record)] }
	missing := q.Missing("sr", []byte("a"), isKnown)
	if string(missing) != "ra" {
		t.Fatalf("%q is missing, want the record that is not known", missing)
	}
	if !q.Keep(missing, 1) || q.Keep(missing, 2) {
		t.Error("the first one alone has the record fetched")
	}
	known["ra"] = true
	if missing := q.Missing("r", []byte("a"), isKnown); string(missing) != "ra" {
		t.Errorf("an input goes past those that wait: %q", missing)
	}
	if taken := q.Take("ra"); !slices.Equal(taken, []int{1, 2}) || q.Len() != 0 {
		t.Errorf("%v, and %d are left", taken, q.Len())
	}
	if missing := q.Missing("sr", []byte("a"), isKnown); missing != nil {
		t.Errorf("%q is missing of two that are known", missing)
	}
	if taken := q.Take("other"); taken != nil {
		t.Errorf("%v waited for what nobody waits for", taken)
	}
	q.Keep([]byte("rb"), 3)
	q.Keep([]byte("rc"), 4)
	if all := q.TakeAll(); !slices.Equal(all, []int{3, 4}) || q.Len() != 0 {
		t.Errorf("%v", all)
	}
}
