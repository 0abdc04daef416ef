package cache

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

func newCache(t testing.TB, slots int) *Cache {
	t.Helper()
	c, err := New(slots, &Budget{}, false)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// sameSet returns n hashes of one set.
func sameSet(c *Cache, n int) []uint64 {
	var hashes []uint64
	for h := uint64(1); len(hashes) < n; h++ {
		if c.set(h) == c.set(1) {
			hashes = append(hashes, h)
		}
	}
	return hashes
}

func want(t *testing.T, c *Cache, outcome Outcome, id uint64, hashes ...uint64) {
	t.Helper()
	if got := c.Save(ID{1, id}, hashes, fmt.Append(nil, "request ", id)); got != outcome {
		t.Fatalf("request %d on %v: outcome %d, want %d", id, hashes, got, outcome)
	}
}

func contents(c *Cache) []string {
	var all []string
	for _, e := range c.Order() {
		s := c.At(e, nil)
		all = append(all, fmt.Sprintf("%d %v %s", s.ID.Number, s.Hashes, s.Request))
	}
	return all
}

func wantContents(t *testing.T, c *Cache, want ...string) {
	t.Helper()
	if got := contents(c); !slices.Equal(got, want) {
		t.Fatalf("held:\n%q\nwant:\n%q", got, want)
	}
}

func TestARequestOnAHashThatIsHeldConflicts(t *testing.T) {
	c := newCache(t, 64)
	want(t, c, Accepted, 1, 10)
	want(t, c, Conflict, 2, 10)
	want(t, c, Accepted, 3, 11)
	wantContents(t, c, "1 [10] request 1", "3 [11] request 3")
}

func TestASetHasFourWays(t *testing.T) {
	c := newCache(t, 64)
	h := sameSet(c, Ways+1)
	for i := range Ways {
		want(t, c, Accepted, uint64(i), h[i])
	}
	want(t, c, Full, 9, h[Ways])
	c.Drop(h[2], ID{1, 2})
	want(t, c, Accepted, 9, h[Ways])
}

func TestSeveralHashesAreHeldAllOrNone(t *testing.T) {
	c := newCache(t, 64)
	h := sameSet(c, Ways+2)
	elsewhere := uint64(1)
	for c.set(elsewhere) == c.set(1) {
		elsewhere++
	}
	want(t, c, Accepted, 1, h[0], h[1], h[2])
	want(t, c, Full, 2, elsewhere, h[3], h[4]) // two in a set with one free slot
	if !c.Free([]uint64{elsewhere, h[3], h[4]}) {
		t.Fatal("a part of a request that was not accepted is held")
	}
	want(t, c, Conflict, 3, elsewhere, h[1])
	want(t, c, Accepted, 4, elsewhere, h[3])
	wantContents(t, c, fmt.Sprintf("1 %v request 1", h[:3]), fmt.Sprintf("4 [%d %d] request 4", elsewhere, h[3]))
}

func TestAHashThatIsNamedTwiceCountsOnce(t *testing.T) {
	c := newCache(t, 4) // one set
	want(t, c, Accepted, 1, 5, 5, 6, 5, 7, 8)
	wantContents(t, c, "1 [5 6 7 8] request 1")
}

func TestARetryIsAcceptedAgain(t *testing.T) {
	c := newCache(t, 4)
	want(t, c, Accepted, 1, 5, 6)
	want(t, c, Accepted, 1, 5, 6)
	wantContents(t, c, "1 [5 6] request 1")
	if c.Drop(5, ID{1, 1}); c.Taken() != 1 || c.Held() != 1 {
		t.Fatalf("%d slots of %d requests are taken", c.Taken(), c.Held())
	}
	want(t, c, Accepted, 1, 5, 6) // what is missing of it is held again
	wantContents(t, c, "1 [6 5] request 1")
	if got := c.Save(ID{1, 1}, []uint64{5, 6}, []byte("something else")); got != Different {
		t.Fatalf("another request under the same ID: %d", got)
	}
}

func TestADropMatchesHashAndID(t *testing.T) {
	c := newCache(t, 64)
	want(t, c, Accepted, 1, 10)
	want(t, c, Accepted, 2, 20)
	for _, miss := range []struct {
		hash uint64
		id   ID
	}{{10, ID{1, 2}}, {20, ID{1, 1}}, {10, ID{2, 1}}, {30, ID{1, 1}}} {
		if c.Drop(miss.hash, miss.id) {
			t.Errorf("%v dropped a request", miss)
		}
	}
	wantContents(t, c, "1 [10] request 1", "2 [20] request 2")
	if !c.Drop(10, ID{1, 1}) {
		t.Error("nothing was dropped")
	}
	wantContents(t, c, "2 [20] request 2")
}

func TestARequestStaysUntilItsLastHashIsDropped(t *testing.T) {
	c := newCache(t, 64)
	want(t, c, Accepted, 1, 10, 20, 30)
	for i, hash := range []uint64{20, 30, 10} {
		if c.Held() != 1 || !c.Drop(hash, ID{1, 1}) {
			t.Fatalf("after %d drops: %q", i, contents(c))
		}
	}
	if c.Held() != 0 || c.Taken() != 0 || c.Bytes() != 0 {
		t.Fatalf("%d requests, %d slots, %d bytes are left", c.Held(), c.Taken(), c.Bytes())
	}
}

func suspects(c *Cache) []uint64 {
	var all []uint64
	c.TakeSuspects(func(s Saved) bool {
		all = append(all, s.ID.Number)
		return true
	})
	return all
}

func TestWhatOutlastsThreeRoundsAndIsInTheWayIsSuspected(t *testing.T) {
	c := newCache(t, 4)
	want(t, c, Accepted, 1, 10)
	want(t, c, Accepted, 2, 20)
	for range StaleAfter - 1 {
		c.AddRound()
	}
	want(t, c, Conflict, 9, 10)
	if got := suspects(c); got != nil {
		t.Fatalf("suspected after %d rounds: %v", StaleAfter-1, got)
	}
	c.AddRound()
	if got := suspects(c); got != nil {
		t.Fatalf("suspected, though in nobody's way: %v", got)
	}
	want(t, c, Conflict, 9, 10)
	want(t, c, Conflict, 9, 10)
	if got := suspects(c); !slices.Equal(got, []uint64{1}) {
		t.Fatalf("suspected: %v", got)
	}
	if got := suspects(c); got != nil {
		t.Fatalf("handed back twice: %v", got)
	}
	want(t, c, Accepted, 3, 30)
	want(t, c, Accepted, 4, 40)
	want(t, c, Full, 9, 50)
	if got := suspects(c); !slices.Equal(got, []uint64{1, 2}) {
		t.Fatalf("old ones in a full set: %v", got)
	}
	want(t, c, Conflict, 9, 20)
	c.Drop(20, ID{1, 2})
	if got := suspects(c); got != nil {
		t.Fatalf("suspected after it was dropped: %v", got)
	}
}

func TestTheBudgetBoundsWhatIsHeld(t *testing.T) {
	b := &Budget{Limit: 64*(slotBytes+entryBytes) + ChunkBytes}
	c, err := New(64, b, false)
	if err != nil {
		t.Fatal(err)
	}
	accepted := uint64(0)
	for h := uint64(1); ; h++ {
		outcome := c.Save(ID{1, h}, []uint64{h}, nil)
		if outcome == NoMemory {
			break
		}
		if outcome == Accepted {
			accepted++
		}
	}
	if accepted != chunkEntries || b.Used != b.Limit || c.Memory() != b.Used {
		t.Fatalf("%d requests, %d of %d bytes, %d of them the cache's", accepted, b.Used, b.Limit, c.Memory())
	}
	if _, err := New(64, b, false); err == nil {
		t.Error("another cache fits an exhausted budget")
	}
	if c.Restore(ID{1, 1 << 40}, []uint64{1 << 40}, nil, 0) != Accepted {
		t.Error("what was durable is not restored")
	}
	if c.Release(); b.Used != 0 {
		t.Errorf("%d bytes are not given back", b.Used)
	}
}

func TestSlots(t *testing.T) {
	for slots, ok := range map[int]bool{
		-4: false, 0: false, 2: false, 4: true, 6: false, 4096: true, MaxSlots: true, 2 * MaxSlots: false,
	} {
		if err := CheckSlots(slots); (err == nil) != ok {
			t.Errorf("%d slots: %v", slots, err)
		}
	}
}

// The paper: with a direct mapping of 4096 slots the first conflict is expected after about 80 insertions; with 4 ways
// it is much later (figure 11).
func TestAFullSetIsRare(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	total := 0
	const runs = 50
	for range runs {
		c := newCache(t, DefaultSlots)
		for c.Save(ID{1, uint64(c.Held())}, []uint64{random.Uint64()}, nil) == Accepted {
		}
		total += c.Held()
	}
	if mean := total / runs; mean < 400 || mean > 1200 {
		t.Errorf("the first rejection came after %d requests on average", mean)
	}
}

// naive is what a cache means, without slots: requests by ID.
type naive map[ID]*naiveEntry

type naiveEntry struct {
	hashes  []uint64
	request []byte
}

func (n naive) holder(hash uint64) (ID, bool) {
	for id, e := range n {
		if slices.Contains(e.hashes, hash) {
			return id, true
		}
	}
	return ID{}, false
}

// save returns what must happen; fits says whether the sets have room.
func (n naive) save(id ID, hashes []uint64, request []byte, fits bool) Outcome {
	var missing []uint64
	outcome := Accepted
	for _, h := range hashes {
		holder, held := n.holder(h)
		switch {
		case held && holder != id:
			outcome = Conflict
		case held && !bytes.Equal(n[id].request, request):
			return Different
		case !held && !slices.Contains(missing, h):
			missing = append(missing, h)
		}
	}
	switch {
	case outcome != Accepted:
		return outcome
	case len(missing) == 0:
		return Accepted
	case !fits:
		return Full
	}
	if n[id] == nil {
		n[id] = &naiveEntry{request: request}
	}
	n[id].hashes = append(n[id].hashes, missing...)
	return Accepted
}

func (n naive) drop(hash uint64, id ID) bool {
	e := n[id]
	if e == nil || !slices.Contains(e.hashes, hash) {
		return false
	}
	e.hashes = slices.DeleteFunc(e.hashes, func(h uint64) bool { return h == hash })
	if len(e.hashes) == 0 {
		delete(n, id)
	}
	return true
}

// fits counts the sets' free slots by what the model holds.
func (n naive) fits(c *Cache, hashes []uint64) bool {
	taken := map[int]map[uint64]bool{}
	add := func(h uint64) {
		if taken[c.set(h)] == nil {
			taken[c.set(h)] = map[uint64]bool{}
		}
		taken[c.set(h)][h] = true
	}
	for _, e := range n {
		for _, h := range e.hashes {
			add(h)
		}
	}
	for _, h := range hashes {
		add(h)
	}
	for _, set := range taken {
		if len(set) > Ways {
			return false
		}
	}
	return true
}

func (n naive) contents() []string {
	ids := make([]ID, 0, len(n))
	for id := range n {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b ID) int { return int(a.Number) - int(b.Number) })
	var all []string
	for _, id := range ids {
		all = append(all, fmt.Sprintf("%d %v %s", id.Number, n[id].hashes, n[id].request))
	}
	return all
}

func TestRandomRequestsAgreeWithANaiveModel(t *testing.T) {
	seen := map[Outcome]int{}
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 1))
		c, model := newCache(t, 32), naive{}
		keys := uint64(8 + random.IntN(40))
		for step := range 1500 {
			id := ID{1, random.Uint64N(60)}
			if random.IntN(3) == 0 {
				hash := random.Uint64N(keys)
				if holder, held := model.holder(hash); held && random.IntN(2) == 0 {
					id = holder
				}
				if got, want := c.Drop(hash, id), model.drop(hash, id); got != want {
					t.Fatalf("seed %d step %d: drop of %d by %v: %t, want %t", seed, step, hash, id, got, want)
				}
				continue
			}
			// A request's hashes follow from its ID, so that retries name the same; some name a part.
			var hashes []uint64
			of := rand.New(rand.NewPCG(seed, id.Number))
			for range 1 + of.IntN(4) {
				hashes = append(hashes, of.Uint64N(keys))
			}
			request := fmt.Append(nil, "r", id.Number, random.IntN(20) == 0)
			want := model.save(id, hashes, request, model.fits(c, hashes))
			if got := c.Save(id, hashes, request); got != want {
				t.Fatalf("seed %d step %d: request %v on %v: %d, want %d", seed, step, id, hashes, got, want)
			}
			seen[want]++
			if got, want := contents(c), model.contents(); !slices.Equal(got, want) {
				t.Fatalf("seed %d step %d: held\n%q\nwant\n%q", seed, step, got, want)
			}
		}
	}
	for _, o := range []Outcome{Accepted, Conflict, Full, Different} {
		if seen[o] == 0 {
			t.Errorf("outcome %d never came", o)
		}
	}
}

func TestSavingAllocatesNothing(t *testing.T) {
	c := newCache(t, DefaultSlots)
	hashes, request := []uint64{1, 2, 3}, make([]byte, MaxRequest)
	allocated := testing.AllocsPerRun(1000, func() {
		hashes[0] += 3
		hashes[1] += 3
		hashes[2] += 3
		id := ID{1, hashes[0]}
		if c.Save(id, hashes, request) != Accepted {
			t.Fatal("not accepted")
		}
		for _, h := range hashes {
			c.Drop(h, id)
		}
	})
	if allocated != 0 {
		t.Errorf("%v allocations for a request", allocated)
	}
}
