package base_test

import (
	"slices"
	"testing"

	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/base"
	"github.com/georegister/georegister/replica/protocol/protocoltest"
	"github.com/georegister/georegister/replica/protocol/quorum"
	"github.com/georegister/georegister/replica/view"
)

func TestOperationNumbersOfProcessesDiffer(t *testing.T) {
	seen := map[uint64]bool{}
	for incarnation := range view.Incarnation(3) {
		for boot := range uint32(3) {
			c := protocol.Config{
				Self: 1, Boot: boot, View: view.View{Members: []view.Member{{ID: 1}, {ID: 2}, {ID: 3}}},
			}
			r := quorum.FirstDisks(c.View)
			r.Learn(1, incarnation+1)
			first := base.New("test", c, protocol.NewJournal(protocoltest.Disk{}), r).LastOp()
			if seen[first] || first&(1<<40-1) != 0 {
				t.Errorf("incarnation %d, boot %d: numbers begin at %x", incarnation+1, boot, first)
			}
			seen[first] = true
		}
	}
}

type question struct{ base.Operation }

func TestOperationsEndInAnyOrder(t *testing.T) {
	var all base.Operations[*question]
	for number := range uint64(4) {
		all.Begin(&question{base.Operation{Number: number + 1}})
	}
	list := func() (numbers []uint64) {
		for o := range all.InProgress() {
			numbers = append(numbers, o.Number)
		}
		return numbers
	}
	all.End(all.Find(3))
	all.Renumber(all.Find(1), 9)
	if all.Find(3) != nil || all.Find(1) != nil || all.Len() != 3 || !slices.Equal(list(), []uint64{9, 2, 4}) {
		t.Errorf("after the third ended and the first asked again, %v are in progress", list())
	}
	for o := range all.InProgress() { // what ends and begins meanwhile is not listed
		if o.Number == 2 {
			t.Error("an operation that is over is listed")
		}
		if o.Number == 9 {
			all.End(all.Find(2))
			all.Begin(&question{base.Operation{Number: 10}})
		}
		if o.Number == 10 {
			t.Error("an operation that began meanwhile is listed")
		}
	}
	var swept []uint64
	all.Sweep(func(o *question) { swept = append(swept, o.Number) })
	if !slices.Equal(swept, []uint64{2, 3}) || !slices.Equal(list(), []uint64{9, 4, 10}) {
		t.Errorf("swept %v, and %v are left", swept, list())
	}
	all.Unfinished(func(*question) protocol.Resume { return nil })
	if all.Len() != 0 || list() != nil {
		t.Errorf("%v are left", list())
	}
}
