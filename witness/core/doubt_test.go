package core

import (
	"slices"
	"strings"
	"testing"

	witnessv1 "github.com/georegister/georegister/api/witness/v1"
)

const again = 77 // the number of a later start

// doubted is a witness that starts again on what its disk has.
func (b *bench) doubted(durable [][]byte) {
	b.Helper()
	b.durable = durable
	b.config.Start = again
	b.restart()
}

func vouch(promises uint64) *witnessv1.Message {
	m := question(witnessv1.Kind_VOUCH, 0)
	m.Start, m.Disk, m.Promises, m.View, m.Voters = again, disk, promises, 4, 3
	return m
}

func TestADoubtedWitnessPromisesNothing(t *testing.T) {
	b := started(t)
	if a := b.expect(true, "", client, record(5, 1, 10)); a.Promises != 1 {
		t.Fatalf("after the first promise: %v", a)
	}
	b.doubted(b.durable)
	refused := func() {
		t.Helper()
		for _, m := range []*witnessv1.Message{record(5, 2, 20), check(5, 20), gc(5), recovery(5)} {
			if a := b.expect(false, "just started", client, m); a.Start != again || a.Promises != 0 {
				t.Errorf("%v", a)
			}
		}
		never := recovery(9)
		never.Disk = disk
		b.expect(false, "just started", client, never) // a copy may lack the life
	}
	refused()
	for _, m := range []*witnessv1.Message{vouch(1), vouch(1)} { // the same member twice
		b.step(client, m)
	}
	early, other, gone, huge := vouch(1), vouch(1), vouch(1), vouch(witnessv1.MaxPromises+1)
	early.View, other.Start, gone.Disk = 3, 78, "d0"
	for i, m := range []*witnessv1.Message{early, other, gone, huge} {
		b.step(uint32(10+i), m)
	}
	b.step(Manager, vouch(1))
	refused()
	b.step(master, vouch(0))
	if a := b.expect(true, "", client, record(5, 2, 20)); a.Promises != 2 {
		t.Errorf("%v", a)
	}
	elsewhere := record(5, 2, 20)
	elsewhere.Partition = part + 1
	b.expect(false, "just started", client, elsewhere) // each partition has members that may know of it
	b.step(client, vouch(9))                           // what was heard since is no reason to doubt
	b.wantSaved(5, 1, 2)
}

// Members of two views make no majority of either.
func TestVouchersAreOfOneView(t *testing.T) {
	b := started(t)
	b.doubted(b.durable)
	b.step(1, vouch(0))
	later := vouch(0)
	later.View, later.Voters = 5, 5
	b.step(2, later)
	b.step(4, later)
	b.expect(false, "just started", client, check(5, 10))
	b.step(5, later)
	b.expect(true, "", client, check(5, 10))
}

// Whatever a witness has promised, an older copy of its disk is found out by who has heard of it.
func TestAnOldCopyForgets(t *testing.T) {
	never := recovery(9)
	never.Disk = disk
	for name, m := range map[string]*witnessv1.Message{
		"saved": record(5, 2, 20), "frozen": recovery(5), "barred": never,
	} {
		for _, compact := range []bool{false, true} {
			b := started(t)
			b.expect(true, "", client, record(5, 1, 10))
			b.expect(true, "", master, gc(5, 10, 1)) // what is dropped was promised all the same
			if compact {
				b.compact()
			}
			older := slices.Clone(b.durable)
			heard := b.expect(true, "", client, m).Promises
			if compact {
				b.compact()
			}
			whole := slices.Clone(b.durable)
			b.doubted(whole)
			b.step(master, vouch(heard))
			b.step(client, vouch(heard))
			if e := b.step(client, recovery(5)); e.Forgotten != nil || len(e.After) != 1 {
				t.Errorf("%s: the whole disk: %v", name, e)
			}
			b.doubted(older)
			b.step(master, vouch(heard-1))
			e := b.step(client, vouch(heard))
			if e.Forgotten == nil || e.Forgotten.By != client ||
				!strings.Contains(e.Forgotten.Error(), "has forgotten") {
				t.Fatalf("%s: an older copy: %+v", name, e)
			}
			if e := b.step(client, check(5, 10)); e.Forgotten == nil || len(e.Send)+len(e.After)+len(e.Persist) > 0 {
				t.Errorf("%s: it goes on: %+v", name, e)
			}
		}
	}
}

// The begin and the end of a life are no promises: orders that come in doubt do not hide what is missing.
func TestOrdersAreNoPromises(t *testing.T) {
	b := started(t)
	older := slices.Clone(b.durable)
	heard := b.expect(true, "", client, record(5, 1, 10)).Promises
	b.doubted(older)
	b.expect(true, "", Manager, start(6))
	b.expect(true, "", Manager, end(5))
	b.doubted(b.durable)
	if e := b.step(client, vouch(heard)); e.Forgotten == nil {
		t.Error("not found")
	}
}
