package script

import (
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/georegister/georegister/replica/history"
	"github.com/georegister/georegister/replica/protocol/member"
	"github.com/georegister/georegister/replica/protocol/notation"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// Search runs scripts of which each is perturbed by a delay, loss, crash or added operation, or some of them, and has
// what the clients saw judged. Random schedules seldom come near what a script was written for; these all do.
type Search struct {
	Factory member.Factory
	// Regular says that the protocol is regular sequentially consistent, and no more; else it is linearizable.
	Regular bool
	Scripts map[string]string                 // by name; what they expect is not looked at
	Draws   func(seed uint64) func(n int) int // the numbers below n that a seed stands for
	First   uint64                            // each number is a schedule, the same one whenever it is drawn
	Count   int                               // how many distinct ones are looked for, in ten times as many
	Most    int                               // how many perturbations a schedule has at most; 0: one
}

// Searched is what came of a Search. Of several schedules with the same trace one was judged.
type Searched struct {
	Drawn, Distinct int
	Kinds           map[string]int // of the distinct ones, by what perturbed them, one thing or several
	Scripts         map[string]int // of the distinct ones, by their script
	Perturbed       []int          // of the distinct ones, by how many things perturbed them
	Undecided       int            // the judge did not end: neither right nor wrong
	Wrong           *Wrong         // the first violation: the search ends with it
}

// Wrong is a schedule that clients saw in no order.
type Wrong struct {
	Seed        uint64
	Script      string
	Outcome     history.Outcome
	Explanation string
	Trace       string // what every member did, and what was perturbed
}

// Run draws the schedules one after the other.
func (s Search) Run(t *testing.T) Searched {
	t.Helper()
	originals, functions := s.parse(t), register.NewRegistry()
	done := Searched{Kinds: map[string]int{}, Scripts: map[string]int{}, Perturbed: make([]int, max(1, s.Most)+1)}
	known := make(map[uint64]struct{}, s.Count)
	for seed := s.First; done.Distinct < s.Count && done.Drawn < 10*s.Count; seed++ {
		done.Drawn++
		p := s.draw(seed, originals)
		w := &world{factory: s.Factory, functions: functions, t: t, inputs: fnv.New64a()}
		p.run(w)
		if _, again := known[w.inputs.Sum64()]; again {
			continue
		}
		known[w.inputs.Sum64()] = struct{}{}
		if w.fault != nil {
			t.Fatalf("schedule %d, near %s: a member stops: %v", seed, p.script.path, w.fault)
		}
		done.Distinct++
		for _, c := range p.changes {
			done.Kinds[c.kind.String()]++
		}
		done.Scripts[p.script.path]++
		done.Perturbed[len(p.changes)]++
		if done.Distinct%100_000 == 0 {
			t.Logf("%d distinct schedules of %d, %d undecided", done.Distinct, done.Drawn, done.Undecided)
		}
		outcome, why := s.judge(t, &w.sessions)
		switch outcome {
		case history.RegularSequential, history.Linearizable:
		case history.Undecided, history.Timeout:
			done.Undecided++
		default:
			again := &world{factory: s.Factory, functions: functions, t: t} // with words
			s.draw(seed, originals).run(again)
			done.Wrong = &Wrong{
				Seed: seed, Script: p.script.path, Outcome: outcome, Explanation: why, Trace: again.out.String(),
			}
			return done
		}
	}
	return done
}

// patience bounds the check of what the clients of one schedule saw. It is far above what one takes.
const patience = time.Minute

// judge decides whether what the clients saw is what the protocol promises.
func (s Search) judge(t *testing.T, all *sessions) (history.Outcome, string) {
	t.Helper()
	if !s.Regular {
		v := history.Check(t.Context(), all.recorder.Record().Operations, history.Options{Timeout: patience})
		return v.Outcome, v.Explanation
	}
	v, err := all.judge(t)
	if err != nil {
		t.Fatal(err)
	}
	return v.Outcome, v.Explanation
}

// script is a parsed one.
type script struct {
	path     string
	commands []datadriven.TestData
	keys     []string // that it is about
	clients  []string // that it names
	wipes    bool
	steps    int // commands and deliveries, unperturbed
}

func (s Search) parse(t *testing.T) (all []*script) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(s.Scripts)) {
		c := &script{path: name}
		datadriven.RunTestFromString(t, s.Scripts[name], func(_ *testing.T, d *datadriven.TestData) string {
			c.add(d)
			return d.Expected // it is not looked at
		})
		p := schedule{script: c, regular: s.Regular}
		p.run(&world{factory: s.Factory, functions: register.NewRegistry(), t: t})
		c.steps = p.step
		all = append(all, c)
	}
	return all
}

func (c *script) add(d *datadriven.TestData) {
	c.commands = append(c.commands, *d)
	note := func(list *[]string, name string) {
		if !slices.Contains(*list, name) {
			*list = append(*list, name)
		}
	}
	switch d.Cmd {
	case "read", "write", "delete", "rmw":
		note(&c.keys, d.CmdArgs[1].Key)
	case "wipe":
		c.wipes = true
	}
	if client, named := d.Arg("client"); named {
		note(&c.clients, client.Vals[0])
	}
}

// kind is what perturbs a script.
type kind uint8

const (
	loss  kind = iota // a message is lost
	delay             // a message arrives later
	crash             // a member stops, and starts again later
	wiped             // the same with an empty disk
	added             // an operation more, whose messages take the way of the others
	ahead             // an operation more, whose messages to and from some members are delivered before all others
	told              // one session tells another one of all that it knows
	kinds
)

func (k kind) String() string {
	return [...]string{"loss", "delay", "crash", "lost disk", "added operation",
		"added operation, delivered at once", "session told"}[k]
}

// schedule is a script with what perturbs it.
type schedule struct {
	script  *script
	regular bool // reads may be regular, and there are fences
	changes []*perturbation
	world   *world
	step    int
	busy    bool // it delivers what was added
}

// perturbation is one of a script.
type perturbation struct {
	kind   kind
	at     int           // the step that it comes before
	until  int           // delay, crash: when it is over
	member view.MemberID // crash, added
	// added, ahead, tell: what it is, and whose
	client   string
	told     string // tell
	op       string
	key      string
	deadline string          // an argument of the command: after which the operation ends without an answer, if any
	among    [5]bool         // ahead: the members whose messages are delivered; its coordinator is one
	wide     bool            // ahead: it asks all members at once, not the nearest
	lossy    bool            // ahead: messages to and from others are lost, and not delivered with all the rest
	loses    int             // ahead: so many of ten of the messages that would be delivered are lost, or left
	draws    func(n int) int // ahead: which

	late  *packet // a delayed message
	down  *node   // a crashed member
	begun bool
}

func (s Search) draw(seed uint64, scripts []*script) *schedule {
	below := s.Draws(seed)
	p := &schedule{script: scripts[below(len(scripts))], regular: s.Regular}
	wipes := p.script.wipes
	for range 1 + below(max(1, s.Most)) {
		c := p.script.draw(below)
		if c.kind == wiped && wipes {
			c.kind = crash // one lost disk may be all that is tolerated
		}
		wipes = wipes || c.kind == wiped
		p.changes = append(p.changes, c)
	}
	return p
}

func (s *script) draw(below func(n int) int) *perturbation {
	p := &perturbation{kind: kind(below(int(kinds))), draws: below}
	if p.kind < added && below(2) == 0 {
		p.kind = added + kind(below(2)) // of which there are the most
	}
	p.at = 1 + below(s.steps) // not before the cluster is there
	p.until = p.at + 1 + below(s.steps)
	if below(2) == 0 {
		p.until = p.at + 1 + below(8)
	}
	p.member = view.MemberID(1 + below(5))
	for i := range p.among {
		p.among[i] = below(3) > 0 || int(p.member) == i+1
	}
	p.wide, p.lossy, p.loses = below(2) == 0, below(2) == 0, max(0, below(8)-3)
	clients := append([]string{"another"}, s.clients...)
	p.client, p.told = clients[below(len(clients))], clients[below(len(clients))]
	p.op = []string{"read", "read", "write", "rmw", "fence"}[below(5)]
	p.key = append([]string{"other"}, s.keys...)[below(1+len(s.keys))]
	p.deadline = []string{"", "", "deadline=500ms"}[below(3)]
	return p
}

// run runs the script with its perturbations, and then has everything end.
func (p *schedule) run(w *world) {
	p.world, w.meddle = w, p.meddle
	for i := range p.script.commands {
		d := &p.script.commands[i]
		if i > 0 {
			p.meddle(nil)
		}
		if d.Cmd == "judge" || d.Cmd == "show" || (d.Cmd == "finish" || d.Cmd == "abandon") && !w.changed() {
			continue
		}
		if _, submits := operations[d.Cmd]; !w.try(d) && submits {
			w.numbers = append(w.numbers, 0)
		}
	}
	w.meddle = nil
	p.settle()
}

// try runs a command unless what it names is not there any more: then it is left out.
func (w *world) try(d *datadriven.TestData) bool {
	err := w.command(d)
	if err != nil {
		w.printf("left out: %v", err)
	}
	return err == nil
}

// tryLine is try of a command as a script has it.
func (w *world) tryLine(format string, args ...any) bool {
	command, words, err := datadriven.ParseLine(fmt.Sprintf(format, args...))
	if err != nil {
		w.t.Fatal(err)
	}
	return w.try(&datadriven.TestData{Cmd: command, CmdArgs: words})
}

// tolerates reports whether a disk may be lost: those of a member alone, or of two, are all that there is of a majority.
func (w *world) tolerates() bool { return min(w.view.Before().Size(), w.view.After().Size()) > 2 }

// changed reports whether so many members are ready for the end of a change that whoever makes changes may end it.
func (w *world) changed() bool {
	count := func(v view.View) (ready int) {
		for _, m := range v.Members {
			n := w.nodes[m.ID-1]
			if n.member == nil || n.view.Epoch != w.view.Epoch {
				continue
			}
			if c := n.member.Change(); c.Settled && (c.Fetched || !c.Transfers) {
				ready++
			}
		}
		return ready
	}
	before, after := w.view.Before(), w.view.After()
	return count(before) > before.Size()/2 && count(after) > after.Size()/2
}

// meddle is called before each step of a script: a command, or the delivery of a packet. It reports whether the packet
// arrives now.
func (p *schedule) meddle(arriving *packet) bool {
	if p.busy {
		return true
	}
	p.step++
	arrives := true
	for _, c := range p.changes {
		if p.step >= c.until && c.begun {
			p.over(c)
		}
		if arrives && !c.begun && p.step >= c.at {
			arrives = p.begin(c, arriving)
		}
	}
	return arrives
}

// begin is what a perturbation does at its step. It reports whether the packet of that step arrives.
func (p *schedule) begin(c *perturbation, arriving *packet) bool {
	switch w := p.world; c.kind {
	case loss, delay:
		if arriving == nil {
			return true // the next one
		}
		c.begun = true
		w.printf("perturbed: %s of %s", c.kind, arriving)
		if c.kind == delay {
			late := *arriving
			c.late = &late
		}
		return false
	case crash, wiped:
		c.begun = true
		if int(c.member) > len(w.nodes) || w.nodes[c.member-1].member == nil {
			return true
		}
		c.down = w.nodes[c.member-1]
		w.crash(c.down)
	case added, ahead:
		c.begun = true
		p.add(c)
	case told:
		c.begun = true
		if c.client != c.told {
			w.printf("perturbed: %s tells %s", c.client, c.told)
			w.given(w.nodes[0], c.client+" tells "+c.told, nil)
			w.sessions.tell(c.client, c.told)
		}
	}
	return true
}

// over ends what has an end.
func (p *schedule) over(c *perturbation) {
	if late := c.late; late != nil {
		c.late = nil
		p.busy = true
		p.world.deliver(*late)
		p.busy = false
	}
	if n := c.down; n != nil {
		c.down = nil
		if n.member != nil {
			return // the script, or another perturbation, started it
		}
		if c.kind == wiped && p.world.tolerates() {
			p.world.wipe(n)
		}
		p.world.restart(n)
	}
}

// add submits an operation more.
func (p *schedule) add(c *perturbation) {
	w, member := p.world, notation.Member(c.member)
	op := c.op
	if op == "fence" && !p.regular {
		op = "read"
	}
	line := op + " " + member
	switch op {
	case "read":
		line += " " + c.key
		if p.regular {
			line += " regular"
		}
	case "write":
		line += fmt.Sprintf(" %s added%d", c.key, len(w.operations))
	case "rmw":
		line += fmt.Sprintf(" %s %s args=(exchanged%d)", c.key, register.GetAndSet, len(w.operations))
	}
	waiting, numbers := slices.Clone(w.packets), w.numbers
	if !w.tryLine("%s client=%s %s", line, c.client, c.deadline) {
		return
	}
	w.numbers = numbers
	if c.kind == added {
		return
	}
	p.busy = true
	defer func() { p.busy = false }()
	if c.wide {
		w.tryLine("tick %v %s", retry, member)
	}
	takesPart := func(id view.MemberID) bool { return int(id) > len(c.among) || c.among[id-1] }
	for range 1000 {
		i := slices.IndexFunc(w.packets, func(q packet) bool { return !slices.Contains(waiting, q) })
		if i < 0 {
			return
		}
		q := w.packets[i]
		w.packets = slices.Delete(w.packets, i, i+1)
		switch {
		case takesPart(q.from) && takesPart(q.to) && c.draws(10) >= c.loses:
			w.deliver(q)
		case !c.lossy:
			waiting = append(waiting, q)
			w.packets = append(w.packets, q)
		}
	}
}

// settle ends a schedule: who is down starts, everything arrives, and somebody reads every key.
func (p *schedule) settle() {
	w := p.world
	p.busy = true
	for _, c := range p.changes {
		p.over(c)
	}
	w.manual = false
	for _, n := range w.nodes {
		if n.member == nil && n.view.Index(n.id) >= 0 {
			w.restart(n)
		}
		for len(n.batches) > 0 {
			w.persist(n)
		}
	}
	for range 4 {
		w.goOn()
	}
	for i, key := range p.script.keys {
		for _, n := range w.nodes {
			if n.member != nil && n.view.Epoch == w.view.Epoch && int(n.id) > i%len(w.nodes) {
				regular := ""
				if p.regular {
					regular = "regular"
				}
				w.tryLine("read %s %s %s client=last", n.name, key, regular)
				break
			}
		}
	}
	w.goOn()
}

// goOn has time pass, and everything arrive.
func (w *world) goOn() {
	w.tryLine("deliver all")
	w.tryLine("tick 2s")
	w.tryLine("deliver all")
}

// String is for people.
func (w *Wrong) String() string {
	return fmt.Sprintf("schedule %d, near %s, is judged as %s\n%s\n%s", w.Seed, w.Script, w.Outcome, w.Explanation,
		w.Trace)
}
