package history

import (
	"fmt"
	"strings"
	"testing"
)

// crowd is a history without carstamps of writes of unknown outcome, all at one time and each found by a read, so that
// whichever comes next seems to be of use; and what one client finds, first, second, and the first again, has no order.
func crowd(writes int) (history []Operation) {
	for i := range writes {
		name := fmt.Sprint(i)
		history = append(history, unknown(write("w"+name, 1, 1000, name)), readOf("r"+name, 1, 1000, name))
	}
	return append(history, readOf("r", 1001, 1002, "0"), readOf("r", 1003, 1004, "1"), readOf("r", 1005, 1006, "0"))
}

// What a search holds does not grow with the square of the operations, for there may be as many states one after the
// other as there are moves of each. It gives up instead, and says so.
func TestSearchOfManyAtOnceIsBounded(t *testing.T) {
	t.Parallel()
	operations, held := 2000, 1<<20
	if testing.Short() {
		operations, held = 500, 1<<16
	}
	v := checkRSC(t, crowd(operations), RSCOptions{MaxStates: 1 << 40, most: held})
	if v.Outcome != Undecided || v.Explanation == "" {
		t.Errorf("%s: %s", v.Outcome, v.Explanation)
	}
}

// A search for an order of operations on one key ends when it would hold too much, also if it may take as long as it
// likes: that nothing of it fits then is no violation.
func TestSearchOfOneKeyIsBounded(t *testing.T) {
	t.Parallel()
	history := crowd(60)
	v := Check(t.Context(), history, Options{most: 1 << 20})
	if v.Outcome != Timeout || !strings.Contains(v.Explanation, "holds more than 1 MiB") {
		t.Errorf("%s: %s", v.Outcome, v.Explanation)
	}
}
