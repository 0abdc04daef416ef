package footprints

import (
	"cmp"
	"container/heap"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/georegister/georegister/replica/profile"
)

// This is what footprints would cost and save: clients at five sites who ask for one thing after the other, links that
// take their time, and nothing else that does. All ask the nearest quorum alone, and nothing is lost.

// version is of one key: how many writes it has come upon, and which operation wrote it.
type version struct{ number, writer int }

func (v version) compare(w version) int {
	return cmp.Or(cmp.Compare(v.number, w.number), cmp.Compare(v.writer, w.writer))
}

// versions are of keys, the newest of each.
type versions map[int]version

func (all versions) add(key int, v version) {
	if all[key].compare(v) < 0 {
		all[key] = v
	}
}

func (all versions) merge(more versions) {
	for key, v := range more { // order is irrelevant: of each key alone
		all.add(key, v)
	}
}

// without leaves out what is held.
func (all versions) without(held versions) versions {
	left := versions{}
	for key, v := range all { // order is irrelevant: of each key alone
		if held[key].compare(v) < 0 {
			left[key] = v
		}
	}
	return left
}

// print is a footprint.
type print struct {
	op      int
	saw     version
	carries versions
}

type site struct {
	values versions
	prints map[int][]print
}

// hears applies what an operation brings, and is what footprints name that saw less.
func (x *site) hears(op int, brings versions) versions {
	met := versions{}
	for key, v := range brings { // order is irrelevant: met is a set
		x.values.add(key, v)
		for _, p := range x.prints[key] {
			if p.op != op && p.saw.compare(v) < 0 {
				met.merge(p.carries)
			}
		}
	}
	return met
}

type event struct {
	at     float64
	number int
	do     func()
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(e[i].at, e[j].at), e[i].number-e[j].number) < 0
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

// clocked is a run: with what probability clients write, and how they choose keys.
type clocked struct {
	writes float64
	choose func(rng *rand.Rand, client int) int

	rng    *rand.Rand
	now    float64
	queue  events
	number int
	links  profile.Profile
	sites  [5]site
	took   [2][]float64 // by kind, in milliseconds
	more   [2]int       // operations that took more round trips than reads and writes must
}

func (r *clocked) after(ms float64, do func()) {
	r.number++
	heap.Push(&r.queue, event{r.now + ms, r.number, do})
}

// link is how long a message takes, in milliseconds.
func (r *clocked) link(a, b int) float64 {
	return r.links.RTT[a][b].Seconds() * 500 * (1 + 0.02*r.rng.Float64())
}

// told is one site's answer.
type told struct {
	site   int
	value  version
	met    versions
	prints []print // on the key
}

// clockedOperation is one of a client.
type clockedOperation struct {
	*clocked
	client, home, key, id int
	kind                  kind
	begun                 float64
	trips                 int
	owned                 versions
	depends               versions // of the session
}

// ask has the nearest quorum hear what an operation brings.
func (o *clockedOperation) ask(brings versions, leaves bool, then func([]told)) {
	o.trips++
	near := []int{0, 1, 2, 3, 4}
	slices.SortFunc(near, func(a, b int) int { return cmp.Compare(o.links.RTT[o.home][a], o.links.RTT[o.home][b]) })
	var answers []told
	for _, to := range near[:3] {
		o.after(o.link(o.home, to), func() {
			x := &o.sites[to]
			t := told{site: to, met: x.hears(o.id, brings), value: x.values[o.key], prints: slices.Clone(x.prints[o.key])}
			if leaves && len(brings) > 0 {
				x.prints[o.key] = append(x.prints[o.key], print{o.id, t.value, brings})
			}
			o.after(o.link(to, o.home), func() {
				if answers = append(answers, t); len(answers) == 3 {
					then(answers)
				}
			})
		})
	}
}

// carry asks for the key beside what is carried, again as long as that meets something.
func (o *clockedOperation) carry(carries versions, then func([]told)) {
	o.ask(carries, true, func(answers []told) {
		o.owned.merge(carries)
		o.depends = o.depends.without(o.owned)
		for to := range o.sites { // its footprints are not needed any more
			o.after(o.link(o.home, to), func() {
				x := &o.sites[to]
				x.prints[o.key] = slices.DeleteFunc(x.prints[o.key], func(p print) bool { return p.op == o.id })
			})
		}
		if met := o.met(answers); len(met) > 0 {
			o.sites[o.home].values.add(o.key, met[o.key])
			delete(met, o.key)
			o.carry(met, then)
			return
		}
		then(answers)
	})
}

func (o *clockedOperation) met(answers []told) versions {
	met := versions{}
	for _, t := range answers {
		met.merge(t.met)
	}
	return met.without(o.owned)
}

// newest is the newest version of some answers, and whether a quorum holds it once the coordinator has adopted it.
func (o *clockedOperation) newest(answers []told) (v version, held bool) {
	for _, t := range answers {
		if v.compare(t.value) < 0 {
			v = t.value
		}
	}
	held = !slices.ContainsFunc(answers, func(t told) bool { return t.site != o.home && t.value != v })
	return v, held || v == version{}
}

// begin does an operation, and the next one of its client when it ends.
func (r *clocked) begin(client int, depends versions) {
	r.number++
	o := &clockedOperation{
		clocked: r, client: client, home: client % 5, key: r.choose(r.rng, client), id: r.number, begun: r.now,
		owned: versions{}, depends: depends,
	}
	if r.rng.Float64() < r.writes {
		o.kind = write
	}
	others := depends.without(nil)
	r.sites[o.home].values.add(o.key, others[o.key])
	delete(others, o.key)
	o.carry(others, func(answers []told) {
		v, held := o.newest(answers)
		delete(o.depends, o.key)
		if o.kind == write {
			v = version{v.number + 1, o.id}
			o.ask(versions{o.key: v}, false, func(answers []told) {
				if met := o.met(answers); len(met) > 0 { // is to be held before it returns
					o.ask(met, false, func([]told) { o.end() })
					return
				}
				o.end()
			})
			return
		}
		r.sites[o.home].values.add(o.key, v)
		if !held {
			o.depends.add(o.key, v)
		}
		for _, t := range append(answers, told{prints: r.sites[o.home].prints[o.key]}) {
			for _, p := range t.prints {
				if p.op != o.id && p.saw.compare(v) < 0 {
					o.depends.merge(p.carries.without(o.owned))
				}
			}
		}
		o.end()
	})
}

func (o *clockedOperation) end() {
	o.took[o.kind] = append(o.took[o.kind], o.now-o.begun)
	if o.trips > 1+int(o.kind) {
		o.more[o.kind]++
	}
	o.begin(o.client, o.depends)
}

// run has so many clients at each site, for so many milliseconds.
func (r *clocked) run(clients int, until float64) {
	r.rng = rand.New(rand.NewPCG(1, 2))
	for i := range r.sites {
		r.sites[i] = site{versions{}, map[int][]print{}}
	}
	for client := range 5 * clients {
		r.after(100*r.rng.Float64(), func() { r.begin(client, versions{}) })
	}
	for r.now < until {
		next := heap.Pop(&r.queue).(event)
		r.now = next.at
		next.do()
	}
}

// Footprints have all reads and writes ask a quorum alone, and once, as long as those who meet do so on one key. Where
// sessions go from one key that others write to another one, writes meet the footprints of reads (docs/benchmarks).
func TestLatencyWithFootprints(t *testing.T) {
	t.Parallel()
	hot := func(rng *rand.Rand, client int) int {
		if rng.Float64() < 0.25 {
			return 0
		}
		return 1 + client
	}
	uniform := func(n int) func(*rand.Rand, int) int {
		return func(rng *rand.Rand, _ int) int { return rng.IntN(n) }
	}
	links, err := profile.Find("gryff")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		choose func(*rand.Rand, int) int
		meet   bool
	}{{"25% conflicts", hot, false}, {"3 keys", uniform(3), true}, {"30 keys", uniform(30), true}} {
		for _, writes := range []float64{0.1, 0.3, 0.5} {
			r := &clocked{writes: writes, choose: c.choose, links: links}
			r.run(16, 20_000)
			at := func(k kind, share float64) float64 {
				slices.Sort(r.took[k])
				return r.took[k][int(share*float64(len(r.took[k])-1))]
			}
			more := func(k kind) float64 { return 100 * float64(r.more[k]) / float64(len(r.took[k])) }
			t.Logf("| %s | %.0f%% | %.0f, %.0f | %.0f, %.0f | %.1f%% | %.1f%% |", c.name, 100*writes, at(read, 0.99),
				at(read, 0.999), at(write, 0.99), at(write, 0.999), more(read), more(write))
			if met := r.more[write] > len(r.took[write])/20; met != c.meet {
				t.Errorf("%d of %d writes take a third round trip", r.more[write], len(r.took[write]))
			}
		}
	}
}
