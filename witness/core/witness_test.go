package core

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	witnessv1 "github.com/georegister/georegister/api/witness/v1"
	"github.com/georegister/georegister/witness/cache"
)

func TestALifeFromStartToEnd(t *testing.T) {
	b := started(t)
	b.expect(true, "", client, record(5, 1, 10))
	b.expect(false, "", client, record(5, 2, 10)) // a conflict has no reason
	b.expect(true, "", client, record(5, 3, 20))
	b.expect(false, "", client, check(5, 20))
	b.expect(true, "", client, check(5, 40))
	b.expect(true, "", master, gc(5, 10, 1))
	b.expect(true, "", client, check(5, 10))
	b.wantSaved(5, 3)
	b.expect(true, "", Manager, end(5))
	b.expect(false, "no life", client, record(5, 4, 50))
	if lives := b.w.Lives(); len(lives) != 0 || b.w.budget.Used != 0 {
		t.Errorf("after the end: %v, %d bytes", lives, b.w.budget.Used)
	}
}

func TestWhatIsRefused(t *testing.T) {
	large := record(5, 1, 10)
	large.Request = make([]byte, cache.MaxRequest+1)
	largest := record(5, 1, 10)
	largest.Request = make([]byte, cache.MaxRequest)
	anonymous := record(5, 1, 10)
	anonymous.Id = nil
	other := record(5, 99, 1000)
	other.Request = []byte("another one")
	elsewhere := record(5, 1, 10)
	elsewhere.Partition = part + 1
	outside := start(6)
	outside.Partition = maxPartitions
	wrongDisk := start(6)
	wrongDisk.Disk = "d0"
	noDisk := start(6)
	noDisk.Disk = ""
	tests := map[string]struct {
		from uint32
		m    *witnessv1.Message
		why  string
	}{
		"the largest request":        {client, largest, ""},
		"a larger one":               {client, large, "2 KiB"},
		"no hashes":                  {client, record(5, 1), "one key"},
		"a check without hashes":     {client, check(5), "one key"},
		"two hashes":                 {client, record(5, 1, 10, 20), "one key"},
		"two hashes to check":        {client, check(5, 10, 20), "one key"},
		"no ID":                      {client, anonymous, "no id"},
		"an ID that is taken":        {client, other, "another request"},
		"an earlier term":            {client, record(4, 1, 10), "no life"},
		"a later term":               {client, record(6, 1, 10), "no life"},
		"another partition":          {client, elsewhere, "no life"},
		"recovery of no life":        {master, recovery(4), "no life"},
		"gc of no life":              {master, gc(4, 10, 1), "no life"},
		"a check of no life":         {client, check(4, 10), "no life"},
		"term 0":                     {client, record(0, 1, 10), "term"},
		"a member starts":            {master, start(6), "manager"},
		"a member ends":              {master, end(5), "manager"},
		"the manager records":        {Manager, record(5, 1, 10), "manager"},
		"the manager asks for data":  {Manager, recovery(5), "manager"},
		"a partition of no cluster":  {Manager, outside, "partition"},
		"a start of an earlier term": {Manager, start(4), "not above 5"},
		"a start for a lost disk":    {Manager, wrongDisk, `"d1", not "d0"`},
		"a start for any disk":       {Manager, noDisk, "disk"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b := started(t)
			b.expect(true, "", client, record(5, 99, 1000))
			durable := len(b.durable)
			b.expect(tt.why == "", tt.why, tt.from, tt.m)
			if tt.why != "" && len(b.durable) != durable {
				t.Error("a refusal wrote to the log")
			}
		})
	}
}

// Whoever asks in a term that the witness does not have learns the highest, so that nobody waits.
func TestARefusalTellsTheHighestTerm(t *testing.T) {
	b := started(t)
	if a := b.ask(client, record(4, 1, 10)); a.Term != 5 {
		t.Errorf("term %d", a.Term)
	}
	b.expect(true, "", Manager, end(8))
	if a := b.ask(Manager, start(7)); a.Term != 8 || a.Accepted {
		t.Errorf("term %d, accepted %t", a.Term, a.Accepted)
	}
}

func TestStarts(t *testing.T) {
	b := started(t)
	b.expect(true, "", client, record(5, 1, 10))
	b.expect(true, "", Manager, start(5)) // again: nothing is dropped
	b.expect(false, "", client, check(5, 10))
	b.expect(true, "", Manager, start(9))
	b.expect(true, "", client, record(9, 2, 10)) // lives share nothing
	b.expect(false, "not above 9", Manager, start(7))
	b.expect(true, "", Manager, start(5)) // of a life that is there still
	b.wantSaved(5, 1)                     // the life of an earlier term stays
	b.expect(true, "", Manager, end(5))
	b.expect(true, "", Manager, end(5))
	b.expect(false, "not above 9", Manager, start(5))
	b.expect(true, "", Manager, end(9))
	b.restart()
	b.expect(false, "not above 9", Manager, start(9)) // an ended term stays ended
	b.compact()
	b.restart()
	b.expect(false, "not above 9", Manager, start(9))
	b.expect(true, "", Manager, end(12)) // of a life that never was
	b.expect(false, "not above 12", Manager, start(12))
	b.expect(true, "", Manager, start(13))
}

// A master may be lost before its witness was told to begin: then nothing was saved, and nothing is from then on. What
// ended is another matter, and so is what was on another disk.
func TestALifeThatNeverBeganIsRecovered(t *testing.T) {
	on := func(term uint64, disk string) *witnessv1.Message {
		m := recovery(term)
		m.Disk = disk
		return m
	}
	b := started(t)
	b.expect(true, "", Manager, end(5))
	b.expect(true, "", Manager, start(8))
	for range 2 {
		b.expect(false, "no life", master, on(5, disk))
		b.expect(false, "no life", master, on(7, "d0"))
		b.expect(false, "no life", master, recovery(7))
		for _, term := range []uint64{9, 7} {
			if a := b.expect(true, "", master, on(term, disk)); !a.Last || len(a.Requests) > 0 {
				t.Errorf("term %d: %v", term, a)
			}
			b.expect(false, "not above 9", Manager, start(9))
			b.restart()
		}
		b.expect(false, "no life", client, record(9, 1, 10))
		b.expect(true, "", client, record(8, 1, 10))
		b.compact()
		b.restart()
	}
	b.expect(true, "", Manager, start(10))
}

// A life in recovery mode must never be anything else again, or a client's request would be accepted that nobody
// replays.
func TestRecoveryModeIsIrreversible(t *testing.T) {
	b := started(t)
	b.expect(true, "", client, record(5, 1, 10))
	b.wantSaved(5, 1)
	refuses := func() {
		t.Helper()
		b.expect(false, "recovery mode", client, record(5, 2, 20))
		b.expect(false, "recovery mode", client, record(5, 1, 10)) // also what it holds
		b.expect(false, "recovery mode", master, gc(5, 10, 1))
		b.expect(false, "recovery mode", client, check(5, 99))
		b.expect(false, "recovery mode", Manager, start(5)) // it does not un-freeze
		b.expect(false, "recovery mode", client, record(5, 2, 20))
		b.wantSaved(5, 1)
	}
	refuses()
	b.restart()
	refuses()
	b.compact()
	b.restart()
	refuses()
	b.expect(true, "", Manager, start(6))
	refuses()
}

// What leaves before it is durable is a lie after a crash.
func TestNothingIsAnsweredBeforeItIsDurable(t *testing.T) {
	b := started(t)
	for _, tt := range []struct {
		from    uint32
		m       *witnessv1.Message
		records int
	}{
		{Manager, start(5), 0}, {Manager, start(6), 1}, {Manager, start(6), 0},
		{client, record(5, 1, 10), 1}, {client, record(5, 1, 10), 0}, // a retry, while the first isn't durable
		{Manager, end(3), 0}, {Manager, end(6), 1}, {Manager, end(6), 0},
		{master, recovery(5), 1}, {master, recovery(5), 0},
	} {
		if e := b.step(tt.from, tt.m); len(e.Send) != 0 || len(e.After) != 1 || len(e.Persist) != tt.records {
			t.Errorf("%v: %d answers leave at once, %d after %d records", tt.m, len(e.Send),
				len(e.After), len(e.Persist))
		}
	}
	b.restart()
	e := b.step(master, recovery(5))
	if len(e.Persist) != 1 || len(e.After) != 1 || !e.After[0].Message.Accepted {
		t.Fatalf("the first page leaves with %d records", len(e.Persist))
	}
	b.commit(e)
	b.restart()
	b.expect(false, "recovery mode", client, record(5, 1, 10))
}

// A crash before the commit takes all of it back, and nobody was told.
func TestACrashBeforeTheCommit(t *testing.T) {
	b := started(t)
	b.step(client, record(5, 1, 10))
	b.step(master, recovery(5))
	b.restart()
	b.expect(true, "", client, record(5, 2, 10))
	b.wantSaved(5, 2)
}

// A witness that lost its disk knows nothing, and must say so: an empty answer would be taken for "nothing was saved".
func TestALostDiskAnswersNoRecovery(t *testing.T) {
	b := started(t)
	b.expect(true, "", client, record(5, 1, 10))
	b.durable = nil
	b.config.Disk = "d2"
	b.restart()
	b.expect(false, "no life", master, recovery(5))
	b.expect(false, `"d2", not "d1"`, Manager, start(5)) // a START that comes late
	b.expect(false, "no life", master, recovery(5))
	b.expect(false, "no life", client, check(5, 99))
}

func TestGCMatchesHashAndID(t *testing.T) {
	b := started(t)
	b.expect(true, "", client, record(5, 1, 10))
	b.expect(true, "", client, record(5, 2, 20))
	b.expect(true, "", master, gc(5, 10, 2, 20, 1, 30, 1)) // each matches in one only
	b.expect(false, "", client, check(5, 10))
	b.expect(false, "", client, check(5, 20))
	b.expect(true, "", master, gc(5, 10, 1))
	b.wantSaved(5, 2)
}

// Sessions are a part of the ID.
func TestGCMatchesTheSession(t *testing.T) {
	b := started(t)
	b.expect(true, "", client, record(5, 1, 10))
	m := gc(5, 10, 1)
	m.Drops[0].Id.Session++
	b.expect(true, "", master, m)
	b.wantSaved(5, 1)
}

func TestSuspectedGarbageIsHandedBack(t *testing.T) {
	b := started(t)
	b.expect(true, "", client, record(5, 1, 10))
	for round := range cache.StaleAfter {
		b.expect(false, "", client, record(5, 2, 10))
		if a := b.expect(true, "", master, gc(5)); len(a.Requests) > 0 {
			t.Fatalf("handed back in round %d: %v", round, a.Requests)
		}
	}
	b.restart() // rounds are counted durably
	b.compact()
	b.restart()
	b.expect(false, "", client, record(5, 2, 10))
	a := b.expect(true, "", master, gc(5))
	if len(a.Requests) != 1 {
		t.Fatalf("handed back: %v", a.Requests)
	}
	r := a.Requests[0]
	if r.Id.Number != 1 || r.Id.Session != 7 || !slices.Equal(r.Hashes, []uint64{10}) ||
		string(r.Request) != "request 1" {
		t.Fatalf("handed back: %v", r)
	}
	b.expect(true, "", master, gc(5, 10, 1))
	b.expect(true, "", client, record(5, 2, 10))
}

// A record that is delayed until after its gc is garbage, and held.
func TestARecordAfterItsGC(t *testing.T) {
	b := started(t)
	b.expect(true, "", master, gc(5, 10, 1))
	b.expect(true, "", client, record(5, 1, 10))
	b.wantSaved(5, 1)
}

// Pages are by offset, so their order has to survive a restart and a compaction between two of them.
func TestPagesAreStable(t *testing.T) {
	b := started(t)
	var want []uint64
	for i := uint64(1); i <= 1200; i++ {
		m := record(5, (i*7919)%1201, i)
		m.Request = make([]byte, cache.MaxRequest)
		if b.ask(client, m).Accepted {
			want = append(want, m.Id.Number)
		}
	}
	var got []uint64
	pages := 0
	for {
		m := recovery(5)
		m.Offset = uint64(len(got))
		page := b.expect(true, "", master, m)
		if size := page.SizeVT(); size > 2*pageBytes {
			t.Fatalf("a page of %d bytes", size)
		}
		got = append(got, numbers(page)...)
		pages++
		b.compact()
		b.restart()
		if page.Last {
			break
		}
	}
	if !slices.Equal(got, want) || pages < 5 {
		t.Fatalf("%d pages with %d of %d requests", pages, len(got), len(want))
	}
	beyond := recovery(5)
	beyond.Offset = 1 << 60
	if page := b.expect(true, "", master, beyond); !page.Last || len(page.Requests) != 0 {
		t.Errorf("beyond the last page: %v", page)
	}
}

func TestLimits(t *testing.T) {
	b := newBench(t, Config{Lives: 2, Slots: 64, Memory: 3 * cache.ChunkBytes})
	b.expect(true, "", Manager, start(5))
	b.expect(true, "", Manager, start(6))
	b.expect(false, "the limit", Manager, start(7))
	b.expect(true, "", Manager, end(5))
	b.expect(true, "", Manager, start(7))
	refused := false
	for i := uint64(1); i <= 256; i++ {
		term := 6 + i%2
		a := b.ask(client, record(term, i, i))
		refused = refused || strings.Contains(a.Refused, "memory")
	}
	if used := b.w.budget.Used; !refused || used > b.config.Memory {
		t.Errorf("refused for memory: %t; %d bytes of %d", refused, used, b.config.Memory)
	}
	b.config.Lives, b.config.Memory = 1, 1 // what is durable is restored under lower limits
	b.restart()
	if got := len(b.w.Lives()); got != 2 {
		t.Errorf("%d lives", got)
	}
	for _, c := range []Config{{Slots: 3}, {Lives: -1}, {Memory: -1}} {
		if _, err := New(c); err == nil {
			t.Errorf("%+v is accepted", c)
		}
	}
}

func TestVolatile(t *testing.T) {
	b := newBench(t, Config{Volatile: true, Disk: disk})
	for _, q := range []struct {
		from uint32
		m    *witnessv1.Message
	}{
		{Manager, start(5)}, {client, record(5, 1, 10)}, {master, gc(5, 10, 1)},
		{master, recovery(5)}, {Manager, end(5)},
	} {
		if e := b.step(q.from, q.m); len(e.Send) != 1 || len(e.After) != 0 || len(e.Persist) != 0 {
			t.Errorf("%v: %d answers at once, %d after %d records", q.m.Kind, len(e.Send), len(e.After), len(e.Persist))
		}
	}
}

func TestWhatIsNoQuestionIsIgnored(t *testing.T) {
	b := started(t)
	for kind := range witnessv1.Kind(20) {
		b.w.Receive(client, question(kind, 5))
	}
	b.w.Receive(client, nil)
	if e := b.w.Ready(); len(e.Send)+len(e.After) != 8 || b.w.Stats().Ignored != 13 {
		t.Errorf("%d answers, %d ignored", len(e.Send)+len(e.After), b.w.Stats().Ignored)
	}
}

func TestAnswersNameTheirStream(t *testing.T) {
	b := started(t)
	b.w.ReceiveOn(client, 42, check(5, 10))
	if e := b.w.Ready(); len(e.Send) != 1 || e.Send[0].To != client || e.Send[0].Stream != 42 {
		t.Errorf("%v", e.Send)
	}
}

// Effects that are given back are reused, and those that aren't stay as they are.
func TestReuse(t *testing.T) {
	b := started(t)
	b.w.Receive(client, record(5, 1, 10))
	kept := b.w.Ready()
	before := slices.Clone(kept.Persist[0])
	for i := uint64(2); i < 50; i++ {
		b.w.Receive(client, record(5, i, i*10))
		b.w.Reuse(b.w.Ready())
	}
	if !slices.Equal(kept.Persist[0], before) || !kept.After[0].Message.Accepted || kept.After[0].Message.Term != 5 {
		t.Errorf("effects changed after Ready: %v %v", kept.Persist, kept.After)
	}
	m := record(5, 1000, 7)
	drop := gc(5, 7, 1000)
	round := func() {
		b.w.Receive(client, m)
		b.w.Receive(master, drop)
		e := b.w.Ready()
		after := e.After
		e.After = nil
		b.w.Reuse(e)
		b.w.Reuse(Effects{After: after})
	}
	round()
	if n := testing.AllocsPerRun(100, round); n != 0 {
		t.Errorf("%v allocations for a record and its gc", n)
	}
}

// The manager learns which lives there are and on which disk; a member learns that the witness answers. Neither waits
// for the log.
func TestWhatIsToldAtOnce(t *testing.T) {
	b := newBench(t, Config{Disk: disk})
	lives := func() string {
		t.Helper()
		e := b.step(Manager, &witnessv1.Message{Kind: witnessv1.Kind_LIVES})
		if len(e.Persist)+len(e.After) > 0 || len(e.Send) != 1 {
			t.Fatalf("effects: %+v", e)
		}
		m := e.Send[0].Message
		if m.Kind != witnessv1.Kind_LIVES_REPLY || m.Op != b.op || !m.Accepted || m.Disk != disk {
			t.Fatalf("lives: %v", m)
		}
		text := ""
		for _, l := range m.Lives {
			text += fmt.Sprintf("%d/%d frozen %t held %d; ", l.Partition, l.Term, l.Frozen, l.Held)
		}
		return text
	}
	if got := lives(); got != "" {
		t.Errorf("before the first: %q", got)
	}
	b.expect(true, "", Manager, start(5))
	b.expect(true, "", client, record(5, 1, 10))
	b.expect(true, "", client, record(5, 2, 30))
	b.expect(true, "", Manager, start(7))
	b.expect(true, "", master, recovery(5))
	if got := lives(); got != "3/5 frozen true held 2; 3/7 frozen false held 0; " {
		t.Errorf("lives: %q", got)
	}
	b.expect(true, "", Manager, end(5))
	if got := lives(); got != "3/7 frozen false held 0; " {
		t.Errorf("after one has ended: %q", got)
	}
	b.restart()
	if got := lives(); got != "3/7 frozen false held 0; " {
		t.Errorf("after a crash: %q", got)
	}
	b.expect(false, refusedLives, client, &witnessv1.Message{Kind: witnessv1.Kind_LIVES})
	for _, from := range []uint32{Manager, client, master} {
		b.step(client, record(7, 3, 40)) // its answer waits for the log
		e := b.step(from, &witnessv1.Message{Kind: witnessv1.Kind_PING})
		if len(e.Persist)+len(e.After) > 0 || len(e.Send) != 1 || e.Send[0].To != from {
			t.Fatalf("effects of a ping: %+v", e)
		}
		if m := e.Send[0].Message; m.Kind != witnessv1.Kind_PONG || m.Op != b.op || !m.Accepted {
			t.Errorf("pong: %v", m)
		}
	}
}
