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

func want(t *testing.T, c *Cache, outcome Outcome, id, hash uint64) {
	t.Helper()
	if got := c.Save(ID{1, id}, hash, fmt.Append(nil, "request ", id), ID{}); got != outcome {
		t.Fatalf("request %d on %v: outcome %d, want %d", id, hash, got, outcome)
	}
}

func contents(c *Cache) []string {
	var all []string
	for _, e := range c.Order() {
		s := c.At(e)
		all = append(all, fmt.Sprintf("%d %d %s", s.ID.Number, s.Hash, s.Request))
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
	wantContents(t, c, "1 10 request 1", "3 11 request 3")
}

// after is want for a request that follows another one.
func after(t *testing.T, c *Cache, outcome Outcome, follows, id, hash uint64) {
	t.Helper()
	if got := c.Save(ID{1, id}, hash, fmt.Append(nil, "request ", id), ID{1, follows}); got != outcome {
		t.Fatalf("request %d after %d on %v: outcome %d, want %d", id, follows, hash, got, outcome)
	}
}

func TestARequestFollowsTheLastOneOfItsHash(t *testing.T) {
	c := newCache(t, 64)
	after(t, c, Accepted, 9, 8, 10) // what it follows was dropped, or never came
	after(t, c, Conflict, 9, 5, 10)
	after(t, c, Accepted, 8, 5, 10) // whatever its number
	after(t, c, Conflict, 8, 6, 10) // another one has come in between
	after(t, c, Accepted, 8, 5, 10)
	want(t, c, Conflict, 6, 10)
	after(t, c, Accepted, 5, 6, 10)
	wantContents(t, c, "8 10 request 8", "5 10 request 5", "6 10 request 6")
	c.Drop(10, ID{1, 5})
	wantContents(t, c, "8 10 request 8", "6 10 request 6")
	after(t, c, Conflict, 5, 7, 10)
	after(t, c, Accepted, 6, 7, 10)
	c.Drop(10, ID{1, 8})
	c.Drop(10, ID{1, 6})
	wantContents(t, c, "7 10 request 7")
}

// All requests of a hash may be garbage that is in the way of the next one.
func TestAllOfAHashAreSuspected(t *testing.T) {
	c := newCache(t, 4)
	want(t, c, Accepted, 1, 10)
	after(t, c, Accepted, 1, 2, 10)
	want(t, c, Accepted, 3, 20)
	for range StaleAfter {
		c.AddRound()
	}
	after(t, c, Accepted, 2, 4, 10)
	want(t, c, Conflict, 9, 10)
	if got := suspects(c); !slices.Equal(got, []uint64{1, 2}) {
		t.Fatalf("suspected: %v", got)
	}
	after(t, c, Full, 4, 5, 10)
	if got := suspects(c); !slices.Equal(got, []uint64{1, 2, 3}) {
		t.Fatalf("suspected in a full set: %v", got)
	}
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

func TestARetryIsAcceptedAgain(t *testing.T) {
	c := newCache(t, 4)
	want(t, c, Accepted, 1, 5)
	want(t, c, Accepted, 1, 5)
	wantContents(t, c, "1 5 request 1")
	if got := c.Save(ID{1, 1}, 5, []byte("something else"), ID{}); got != Different {
		t.Fatalf("another request under the same ID: %d", got)
	}
	if c.Drop(5, ID{1, 1}); c.Held() != 0 || c.Bytes() != 0 || c.Holds(5) {
		t.Fatalf("%d requests, %d bytes are left", c.Held(), c.Bytes())
	}
	want(t, c, Accepted, 1, 5)
	wantContents(t, c, "1 5 request 1")
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
	wantContents(t, c, "1 10 request 1", "2 20 request 2")
	if !c.Drop(10, ID{1, 1}) {
		t.Error("nothing was dropped")
	}
	wantContents(t, c, "2 20 request 2")
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
		outcome := c.Save(ID{1, h}, h, nil, ID{})
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
	if c.Restore(ID{1, 1 << 40}, 1<<40, nil, 0) != Accepted {
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
		for c.Save(ID{1, uint64(c.Held())}, random.Uint64(), nil, ID{}) == Accepted {
		}
		total += c.Held()
	}
	if mean := total / runs; mean < 400 || mean > 1200 {
		t.Errorf("the first rejection came after %d requests on average", mean)
	}
}

// naive is what a cache means, without slots: requests in the order in which they were saved.
type naive []naiveEntry

type naiveEntry struct {
	id      ID
	hash    uint64
	request []byte
}

// save returns what must happen; fits says whether the set has room.
func (n *naive) save(id ID, hash uint64, request []byte, follows ID, fits bool) Outcome {
	last := ID{}
	for _, e := range *n {
		switch {
		case e.hash != hash:
		case e.id == id && !bytes.Equal(e.request, request):
			return Different
		case e.id == id:
			return Accepted
		default:
			last = e.id
		}
	}
	switch {
	case last != ID{} && last != follows:
		return Conflict
	case !fits:
		return Full
	}
	*n = append(*n, naiveEntry{id, hash, request})
	return Accepted
}

func (n *naive) drop(hash uint64, id ID) bool {
	held := len(*n)
	*n = slices.DeleteFunc(*n, func(e naiveEntry) bool { return e.hash == hash && e.id == id })
	return len(*n) < held
}

// of are the IDs of the requests of a hash.
func (n *naive) of(hash uint64) (ids []ID) {
	for _, e := range *n {
		if e.hash == hash {
			ids = append(ids, e.id)
		}
	}
	return ids
}

// fits counts the free slots of a hash's set by what the model holds.
func (n *naive) fits(c *Cache, hash uint64) bool {
	taken := 0
	for _, e := range *n {
		if c.set(e.hash) == c.set(hash) {
			taken++
		}
	}
	return taken < Ways
}

func (n *naive) contents() (all []string) {
	for _, e := range *n {
		all = append(all, fmt.Sprintf("%d %d %s", e.id.Number, e.hash, e.request))
	}
	return all
}

func TestRandomRequestsAgreeWithANaiveModel(t *testing.T) {
	seen, most := map[Outcome]int{}, 0
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 1))
		c, model := newCache(t, 32), &naive{}
		keys := uint64(8 + random.IntN(40))
		for step := range 1500 {
			id := ID{1, 1 + random.Uint64N(60)}
			if random.IntN(3) == 0 {
				hash := random.Uint64N(keys)
				if held := model.of(hash); len(held) > 0 && random.IntN(2) == 0 {
					id = held[random.IntN(len(held))]
				}
				if got, want := c.Drop(hash, id), model.drop(hash, id); got != want {
					t.Fatalf("seed %d step %d: drop of %d by %v: %t, want %t", seed, step, hash, id, got, want)
				}
				continue
			}
			// A request's hash follows from its ID, as a rule, so that retries name the same.
			hash := rand.New(rand.NewPCG(seed, id.Number)).Uint64N(keys)
			if random.IntN(20) == 0 {
				hash = random.Uint64N(keys)
			}
			request := fmt.Append(nil, "r", id.Number, random.IntN(20) == 0)
			follows := ID{}
			if held := model.of(hash); len(held) > 0 && random.IntN(2) == 0 {
				follows = held[random.IntN(len(held))]
			}
			want := model.save(id, hash, request, follows, model.fits(c, hash))
			if got := c.Save(id, hash, request, follows); got != want {
				t.Fatalf("seed %d step %d: request %v on %v: %d, want %d", seed, step, id, hash, got, want)
			}
			seen[want]++
			most = max(most, len(model.of(hash)))
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
	if most < Ways {
		t.Errorf("at most %d requests of a hash were held", most)
	}
}

func TestSavingAllocatesNothing(t *testing.T) {
	c := newCache(t, DefaultSlots)
	hash, request := uint64(1), make([]byte, MaxRequest)
	allocated := testing.AllocsPerRun(1000, func() {
		hash++
		id := ID{1, hash}
		if c.Save(id, hash, request, ID{}) != Accepted {
			t.Fatal("not accepted")
		}
		c.Drop(hash, id)
	})
	if allocated != 0 {
		t.Errorf("%v allocations for a request", allocated)
	}
}
