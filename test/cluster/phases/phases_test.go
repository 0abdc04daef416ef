package phases

import (
	"strings"
	"testing"
	"time"

	"github.com/georegister/georegister/replica/history"
	"github.com/georegister/georegister/replica/register"
)

// at is an operation at a site that took ten milliseconds and was answered at a second.
func at(site string, second float64, status register.Status) history.Operation {
	returned := time.Duration(second * float64(time.Second))
	return history.Operation{
		Site: site, Invoked: returned - 10*time.Millisecond, Returned: returned,
		Result: register.Result{Status: status},
	}
}

func TestRowsTellWhatEachSiteFelt(t *testing.T) {
	operations := []history.Operation{
		at("a", 1, register.OK), at("a", 2, register.Failed), at("a", 5, register.OK), at("a", 6, register.Unavailable),
		at("a", 9, register.OK), at("a", 11, register.OK),
		at("new", 1, register.Unavailable), at("new", 8, register.OK), at("new", 9, register.OK),
		at("old", 0.5, register.OK), at("old", 2.5, register.OK), at("old", 7, register.Unknown),
	}
	rows := Rows(operations, []Phase{{
		Name: "change", From: 0, To: 10 * time.Second,
		Sites: []Site{{Name: "a"}, {Name: "new", Joins: true}, {Name: "old", Leaves: true}, {Name: "silent"}},
	}})
	want := []Row{
		{Site: "a", Succeeded: 4, Failed: 1, PerSecond: 0.4, Gap: 4 * time.Second, GapAt: 5 * time.Second},
		{Site: "new", Succeeded: 2, Failed: 1, PerSecond: 0.5, Gap: time.Second, GapAt: 8 * time.Second},
		{Site: "old", Succeeded: 2, Failed: 1, PerSecond: 0.8, Gap: 2 * time.Second, GapAt: 500 * time.Millisecond},
		{Site: "silent", Gap: 10 * time.Second},
		{Site: All, Succeeded: 8, Failed: 3, PerSecond: 0.7, Gap: 10 * time.Second},
	}
	if len(rows) != len(want) {
		t.Fatalf("%d rows, want %d: %v", len(rows), len(want), rows)
	}
	for i, w := range want {
		w.Phase = "change"
		if w.Succeeded > 0 {
			w.P50, w.P99 = 10*time.Millisecond, 10*time.Millisecond
		}
		if rows[i] != w {
			t.Errorf("row %d is %+v, want %+v", i, rows[i], w)
		}
	}
}

func TestLatenciesAreOfThePhaseAlone(t *testing.T) {
	var operations []history.Operation
	for i := range 100 {
		o := at("a", 1+float64(i)/100, register.OK)
		o.Invoked = o.Returned - time.Duration(i+1)*time.Millisecond
		operations = append(operations, o)
	}
	operations = append(operations, history.Operation{
		// 3 s long, in the next phase
		Site: "a", Returned: 3 * time.Second, Result: register.Result{Status: register.OK},
	})
	rows := Rows(operations, []Phase{
		{Name: "one", From: time.Second, To: 2 * time.Second, Sites: Stay("a")},
		{Name: "two", From: 2 * time.Second, To: 4 * time.Second, Sites: Stay("a")},
	})
	if one := rows[0]; one.P50 != 50*time.Millisecond || one.P99 != 99*time.Millisecond || one.PerSecond != 100 {
		t.Errorf("phase one: %+v", one)
	}
	if two := rows[2]; two.P99 != 3*time.Second || two.Succeeded != 1 {
		t.Errorf("phase two: %+v", two)
	}
	var out strings.Builder
	if err := Table(&out, rows); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 1+len(rows) || !strings.Contains(lines[1], "99.0") {
		t.Errorf("the table is\n%s", out.String())
	}
}
