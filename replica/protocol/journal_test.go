package protocol_test

import (
	"fmt"
	"math/rand"
	"slices"
	"testing"

	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/protocoltest"
)

func sorted[V any](m map[string]V) []string {
	var keys []string
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// model is what a journal should show: every mutation at once, and which of them a crash takes back.
type model struct {
	newest  map[string][]byte
	changed map[string]uint64 // the last batch that has the key; 0 for none or one on disk
	batches []protocol.Batch  // taken, not on disk
	next    uint64
}

// TestJournalMatchesItsModel runs random schedules of mutations, batches, writes to the disk and crashes.
func TestJournalMatchesItsModel(t *testing.T) {
	for seed := range int64(100) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewSource(seed))
			d := protocoltest.Disk{}
			j := protocol.NewJournal(d)
			m := model{newest: map[string][]byte{}, changed: map[string]uint64{}, next: 1}
			for range 200 {
				switch key := fmt.Sprintf("k%d", r.Intn(8)); r.Intn(8) {
				case 0, 1, 2:
					value := fmt.Appendf(nil, "%d", r.Intn(1000))
					if r.Intn(4) == 0 {
						value = []byte{}
					}
					j.Put([]byte(key), value)
					m.newest[key], m.changed[key] = value, m.next
				case 3:
					j.Delete([]byte(key))
					delete(m.newest, key)
					m.changed[key] = m.next
				case 4:
					m.take(t, j.Take())
				case 5, 6:
					if len(m.batches) > 0 { // one or several batches reach the disk
						arrived := m.batches[:1+r.Intn(len(m.batches))]
						for _, b := range arrived {
							d.Write(b)
						}
						last := arrived[len(arrived)-1].Sequence
						m.persisted(last)
						j.Persisted(last)
						j.Persisted(last - 1) // old news
					}
				case 7:
					if r.Intn(10) == 0 { // a crash: the disk is all that is left
						j = protocol.NewJournal(d)
						m = model{newest: map[string][]byte{}, changed: map[string]uint64{}, next: 1}
						for key, value := range d {
							m.newest[key] = value
						}
					}
				}
				m.check(t, j, r)
			}
		})
	}
}

func (m *model) take(t *testing.T, b protocol.Batch) {
	t.Helper()
	mutated := false
	for _, sequence := range m.changed {
		mutated = mutated || sequence == m.next
	}
	if !mutated {
		if b.Sequence != 0 || len(b.Mutations) != 0 {
			t.Fatalf("a batch of nothing is %+v", b)
		}
		return
	}
	if b.Sequence != m.next {
		t.Fatalf("batch %d was taken, want %d", b.Sequence, m.next)
	}
	m.next++
	m.batches = append(m.batches, b)
}

func (m *model) persisted(sequence uint64) {
	for len(m.batches) > 0 && m.batches[0].Sequence <= sequence {
		m.batches = m.batches[1:]
	}
	for key, s := range m.changed {
		if s <= sequence {
			delete(m.changed, key)
		}
	}
}

func (m *model) check(t *testing.T, j *protocol.Journal, r *rand.Rand) {
	t.Helper()
	for i := range 8 {
		key := fmt.Sprintf("k%d", i)
		value, ok := j.Get([]byte(key))
		want, there := m.newest[key]
		if ok != there || string(value) != string(want) || ok && value == nil {
			t.Fatalf("%s is %q, %v; want %q, %v", key, value, ok, want, there)
		}
		if _, dirty := m.changed[key]; j.Durable([]byte(key)) == dirty {
			t.Fatalf("%s is durable: %v", key, !dirty)
		}
	}
	if j.Clean() != (len(m.changed) == 0) {
		t.Fatalf("clean is %v with %d keys that are not durable", j.Clean(), len(m.changed))
	}
	after := []string{"", "k", "k3", "k3x", "z"}[r.Intn(5)]
	stop := r.Intn(9) // visit no more than this many, at least one
	var want, got []string
	for _, key := range sorted(m.newest) {
		if key > after && len(want) <= stop {
			want = append(want, fmt.Sprintf("%s=%s", key, m.newest[key]))
		}
	}
	j.Scan([]byte(after), func(key, value []byte) bool {
		got = append(got, fmt.Sprintf("%s=%s", key, value))
		return len(got) <= stop
	})
	if !slices.Equal(got, want) {
		t.Fatalf("a scan behind %q that stops after %d saw %v, want %v", after, stop+1, got, want)
	}
}

func TestJournalKeepsAbsentAndEmptyApart(t *testing.T) {
	j := protocol.NewJournal(protocoltest.Disk{})
	j.Put([]byte("k"), nil)
	if value, ok := j.Get([]byte("k")); !ok || value == nil {
		t.Errorf("a nil value was put, and reads as %v, %v", value, ok)
	}
	b := j.Take()
	if len(b.Mutations) != 1 || b.Mutations[0].Value == nil {
		t.Errorf("a nil value was put, and the batch says %+v: a deletion", b)
	}
}

func TestARecordThatIsOverwrittenInFlightIsNotDurable(t *testing.T) {
	d := protocoltest.Disk{}
	j := protocol.NewJournal(d)
	j.Put([]byte("k"), []byte("one"))
	first := j.Take()
	j.Put([]byte("k"), []byte("two"))
	d.Write(first)
	j.Persisted(first.Sequence)
	if j.Durable([]byte("k")) {
		t.Error("two is not on disk, and durable")
	}
	if value, _ := j.Get([]byte("k")); string(value) != "two" {
		t.Errorf("reads %q, want two", value)
	}
	second := j.Take()
	d.Write(second)
	j.Persisted(second.Sequence)
	if !j.Durable([]byte("k")) || !j.Clean() {
		t.Error("two is on disk, and not durable")
	}
}

var _ protocol.Loader = (*loader)(nil)

// loader remembers what it was told to load.
type loader struct {
	protocoltest.Disk
	loaded []string
}

func (l *loader) Load(keys [][]byte) {
	for _, key := range keys {
		l.loaded = append(l.loaded, string(key))
	}
}

// A disk is asked for nothing that it may not have yet.
func TestWhatIsNotDurableIsNotLoaded(t *testing.T) {
	l := &loader{Disk: protocoltest.Disk{}}
	j := protocol.NewJournal(l)
	j.Put([]byte("b"), []byte("1"))
	j.Delete([]byte("c"))
	keys := func() [][]byte { return [][]byte{[]byte("a"), []byte("b"), []byte("c"), []byte("d")} }
	if j.Load(keys()); !slices.Equal(l.loaded, []string{"a", "d"}) {
		t.Errorf("loaded %q", l.loaded)
	}
	b := j.Take()
	l.Write(b)
	j.Persisted(b.Sequence)
	l.loaded = nil
	if j.Load(keys()); !slices.Equal(l.loaded, []string{"a", "b", "c", "d"}) {
		t.Errorf("loaded %q once all is durable", l.loaded)
	}
	protocol.NewJournal(protocoltest.Disk{}).Load(keys()) // it has no way to do so
}
