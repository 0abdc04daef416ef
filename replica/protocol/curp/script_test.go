package curp_test

import (
	"bytes"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/history"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/protocoltest"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
	"github.com/georegister/georegister/test/mutants"
)

// A script holds commands and, below each, what happened, so that it reads like a message diagram. Members are a, b, c
// and so on, witnesses w1, w2 and so on. a is the master at first, the next ones are the backups, and all others are
// learners.
//
//	cluster members=3 faults=1 witnesses=1 [disk=manual] [sync=50] [log=512] [hold=manual] [doubt]
//	                                 doubt: members tell how far their disks are, and ask when they start
//	                                 log: so many entries of the log stay, and as many are not applied to the state on disk
//	                                 unless hold=manual, a master that asks who holds its view hears at once that all do, but for former masters that don't
//	learner c                        what a master and c say to each other, while c is a learner, is shown from now on, and has to be delivered;
//	                                 of others it arrives at once
//	read a k [stale], write a k v, delete a k, append a k v [session=7 number=1 first=1 at=1]
//	                                 an operation that member a is asked for; at is its issue time, in minutes
//	deliver [from=a] [to=b] [kind=UPDATE] [count=1] [copy]
//	                                 the messages that are under way now; copy leaves them to be delivered again
//	deliver all [not=(a,b)]          and those that follow, until none is left; what those members send or get stays
//	drop [from=a] [to=b] [kind=UPDATE] [count=1]
//	tick 1s [a]                      time passes, for all members; or only one hears of it
//	persist a                        a's disk has what it was told, if it is a manual one
//	copy a, back a                   a copy of a's disk is made; a crashes, and that is its disk
//	crash a, restart a [anew], wipe a
//	                                 anew: its clock begins again; wipe: it starts on an empty disk
//	view master=b [backups=(c)] [witnesses=(w2)] [formers=keep] [lost=(w1)] [empty=needed] [again]
//	                                 the next view, which recovers from the present one; keep: and from what that recovers from;
//	                                 done: the present one, and its recovery has ended, if its master says so; same: the present one;
//	                                 none: it recovers from nothing, and goes on with what its master has
//	                                 lost: nobody waits for these witnesses of former terms any more
//	                                 empty: it recovers from nothing; needed: only if its master says that its disk has not what it needs
//	                                 again: the record of views was lost, and this one is made in place of the newest, with its epoch
//	configure a                      a takes on the newest view: all if none is named
//	show a                           its part, and the registers: what a term that serves has synced
//	show network
//	check                            whether what clients saw is linearizable, and no read that may be stale too old or taken back

// steps are what a script has beside the world.
type steps struct {
	*world
	manual     bool
	logEntries int  // protocol.Tuning; 0: the default
	doubted    bool // disks may be older copies
	copies     map[view.MemberID]protocoltest.Disk
	holds      bool            // who holds which view is a part of the script
	learners   []view.MemberID // and so is what these hear as learners
	aside      []packet        // what is said of either, if it is none
	former     view.View
	packets    []packet
	out        strings.Builder
	sessions   map[uint64]string
	recorder   *history.Recorder
	invoked    map[[2]uint64]history.Invocation
	operations uint64
	verdict    history.Outcome
}

type packet struct {
	from, to view.MemberID
	message  *peerv1.Message
}

func (s *steps) printf(format string, args ...any) { fmt.Fprintf(&s.out, format+"\n", args...) }

func (s *steps) describe(p packet) string {
	return fmt.Sprintf("%s -> %s: %s", name(p.from), name(p.to), describe(p.message, s.session))
}

// session names sessions by the order in which they are seen.
func (s *steps) session(id uint64) string {
	if id < 1000 {
		return fmt.Sprint(id)
	}
	if s.sessions[id] == "" {
		s.sessions[id] = string(rune('A' + len(s.sessions)))
	}
	return s.sessions[id]
}

func (s *steps) post(p packet) {
	held := p.message.Kind == peerv1.Kind_HOLD || p.message.Kind == peerv1.Kind_HOLD_REPLY
	if held && !s.holds || s.learns(p) {
		s.aside = append(s.aside, p)
		return
	}
	s.packets = append(s.packets, p)
	s.printf("%s", s.describe(p))
}

// runScript runs a script, and returns whether its last check found what clients saw to be linearizable.
func runScript(t *testing.T, path string, golden bool) history.Outcome {
	t.Helper()
	s := &steps{sessions: map[uint64]string{}, invoked: map[[2]uint64]history.Invocation{}}
	datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
		s.out.Reset()
		if d.Cmd == "cluster" {
			s.cluster(t, d)
		} else {
			s.t = t
			s.command(d)
		}
		s.settle()
		switch {
		case !golden:
			return d.Expected
		case s.out.Len() == 0:
			return "nothing\n"
		}
		return s.out.String()
	})
	return s.verdict
}

// learns reports whether a message is between a master and a learner of its view that is none of the script's.
func (s *steps) learns(p packet) bool {
	learner := p.to
	switch p.message.Kind {
	case peerv1.Kind_SYNC, peerv1.Kind_COPY_PAGE:
	case peerv1.Kind_SYNC_REPLY, peerv1.Kind_COPY:
		learner = p.from
	default:
		return false
	}
	return !slices.Contains(s.learners, learner) && !s.nodes[p.from-1].view.Partitions[0].Former().Has(learner)
}

// settle delivers what is no part of the script.
func (s *steps) settle() {
	for len(s.aside) > 0 {
		p := s.aside[0]
		s.aside = s.aside[1:]
		if p.message.Kind == peerv1.Kind_HOLD {
			s.hold(p)
		} else {
			s.deliver(p.from, p.to, p.message)
		}
	}
}

// hold has a member say that it holds the view of who asks, though it may not have been told of it yet, and says
// nothing else then; but for a former master that is down or in another one.
func (s *steps) hold(p packet) {
	asker, n := s.nodes[p.from-1].view, s.nodes[p.to-1]
	if n.p != nil && !n.p.Doubted() && n.view.Digest() == asker.Digest() {
		s.deliver(p.from, p.to, p.message)
		return
	}
	former := slices.ContainsFunc(asker.Partitions[0].Formers, func(f view.Former) bool { return f.Master == p.to })
	if former && (n.p == nil || n.view.Digest() != asker.Digest()) {
		return
	}
	m := p.message.CloneVT()
	m.Kind, m.Curp.Lacking = peerv1.Kind_HOLD_REPLY, true
	s.deliver(p.to, p.from, m)
}

func (s *steps) cluster(t *testing.T, d *datadriven.TestData) {
	members, faults, witnesses, after, disk, hold := 3, 1, 1, 0, "", ""
	d.MaybeScanArgs(t, "members", &members)
	d.MaybeScanArgs(t, "faults", &faults)
	d.MaybeScanArgs(t, "witnesses", &witnesses)
	d.MaybeScanArgs(t, "sync", &after)
	d.MaybeScanArgs(t, "disk", &disk)
	d.MaybeScanArgs(t, "hold", &hold)
	s.logEntries = 0
	d.MaybeScanArgs(t, "log", &s.logEntries)
	s.doubted, s.copies = d.HasArg("doubt"), map[view.MemberID]protocoltest.Disk{}
	s.world = newStepped(t, s, members, faults, witnesses, protocol.Sync{After: after})
	s.recorder = history.NewRecorder(func() time.Duration { return s.now })
	s.completed = func(n *node, c protocol.Completion) {
		s.printf("%s: %s", name(n.id), describeCompletion(c))
		key := [2]uint64{uint64(n.id), c.Handle}
		if i, ok := s.invoked[key]; ok && c.Result.Status != register.Unknown {
			i.Return(c.Result)
			delete(s.invoked, key)
		}
	}
	s.out.Reset()
	for range 20 { // who agrees with whom is no news
		s.settle()
		all := s.packets
		s.packets = nil
		for _, p := range all {
			s.deliver(p.from, p.to, p.message)
		}
		if len(all) == 0 {
			break
		}
	}
	s.out.Reset()
	s.manual, s.holds = disk == "manual", hold == "manual"
	s.printf("master %s, backups %s, witnesses %s", name(1), names(s.view.Partitions[0].Backups),
		names(s.view.Partitions[0].Witnesses))
}

func (s *steps) command(d *datadriven.TestData) {
	switch d.Cmd {
	case "read", "write", "delete", "append":
		s.submit(d)
	case "deliver", "drop":
		s.network(d)
	case "tick":
		after, err := time.ParseDuration(d.CmdArgs[0].Key)
		if err != nil {
			d.Fatalf(s.t, "%v", err)
		}
		s.now += after
		for _, n := range s.nodes {
			if len(d.CmdArgs) < 2 || d.CmdArgs[1].Key == name(n.id) {
				n.turn(func() {})
			}
		}
	case "view":
		s.nextView(d)
	case "configure":
		for _, n := range s.nodes {
			if len(d.CmdArgs) == 0 || d.CmdArgs[0].Key == name(n.id) {
				n.configure()
			}
		}
	case "check":
		saw, limits := s.recorder.Operations(), history.Options{Timeout: time.Minute, Brief: true}
		text := map[history.Outcome]string{history.Linearizable: "linearizable", history.Violation: "not linearizable"}
		s.verdict = history.Check(s.t.Context(), saw, limits).Outcome
		if s.verdict == history.Linearizable {
			s.verdict = history.CheckStale(s.t.Context(), saw, s.options.WithDefaults().Lease, limits).Outcome
			text[history.Violation] = "linearizable, but for reads that are more stale than they may be, or told of " +
				"what is lost"
		}
		s.printf("what clients saw is %s", text[s.verdict])
	case "show":
		s.show(d)
	default:
		n := s.member(d, 0)
		switch d.Cmd {
		case "learner":
			s.learners = append(s.learners, n.id)
		case "persist":
			n.persist(len(n.batches))
		case "crash":
			n.crash()
		case "copy":
			s.copies[n.id] = maps.Clone(n.disk)
		case "back":
			n.crash()
			n.disk, n.copied = s.copies[n.id], true
		case "restart":
			if d.HasArg("anew") {
				n.shown = time.Second - s.now
			}
			n.start(false)
		case "wipe":
			n.crash()
			n.disk, n.founded, n.boot = protocoltest.Disk{}, false, 0
			n.start(false)
		default:
			d.Fatalf(s.t, "unknown command %q", d.Cmd)
		}
	}
}

func (s *steps) member(d *datadriven.TestData, i int) *node {
	for _, n := range s.nodes {
		if name(n.id) == d.CmdArgs[i].Key {
			return n
		}
	}
	d.Fatalf(s.t, "%s takes a member, not %q", d.Cmd, d.CmdArgs[i].Key)
	return nil
}

func (s *steps) submit(d *datadriven.TestData) {
	n := s.member(d, 0)
	op := register.Operation{Kind: register.Write, Key: d.CmdArgs[1].Key}
	switch d.Cmd {
	case "read":
		op.Kind, op.Stale = register.Read, d.HasArg("stale")
	case "write":
		op.Value = register.Value(d.CmdArgs[2].Key)
		switch string(op.Value) {
		case "*": // a large one
			op.Value = register.Value(strings.Repeat("x", 3000))
		case "**": // as large as several pages
			op.Value = register.Value(strings.Repeat("x", 900_000))
		}
	case "append":
		op.Kind = register.RMW
		op.Call = register.Call{
			Function: register.Append, Args: [][]byte{[]byte(d.CmdArgs[2].Key)}, MaxValueBytes: 1 << 20,
		}
	}
	d.MaybeScanArgs(s.t, "session", &op.ID.Session)
	if op.ID.Session != 0 {
		op.ID.IssuedAt = 1
		d.MaybeScanArgs(s.t, "number", &op.ID.Number)
		d.MaybeScanArgs(s.t, "first", &op.ID.FirstIncomplete)
		d.MaybeScanArgs(s.t, "at", &op.ID.IssuedAt)
		op.ID.IssuedAt *= 60_000
	}
	s.operations++
	s.invoked[[2]uint64{uint64(n.id), s.operations}] = s.recorder.Invoke(fmt.Sprint(s.operations), "", op)
	s.printf("%s: operation %d", name(n.id), s.operations)
	n.turn(func() { n.p.Submit(protocol.Request{Handle: s.operations, Operation: op}) })
}

func (s *steps) network(d *datadriven.TestData) {
	var from, to, kind string
	count, rounds := -1, 1
	d.MaybeScanArgs(s.t, "from", &from)
	d.MaybeScanArgs(s.t, "to", &to)
	d.MaybeScanArgs(s.t, "kind", &kind)
	d.MaybeScanArgs(s.t, "count", &count)
	not := strings.Fields(strings.Join(listOf(d, "not"), " "))
	if d.HasArg("all") {
		rounds = 100
	}
	skip := func(id view.MemberID) bool {
		for _, n := range not {
			if n == name(id) {
				return true
			}
		}
		return false
	}
	for range rounds {
		var now, later []packet
		for _, p := range s.packets {
			k := p.message.Kind.String()
			if p.message.Witness != nil {
				k = p.message.Witness.Kind.String()
			}
			fits := (from == "" || from == name(p.from)) && (to == "" || to == name(p.to)) &&
				(kind == "" || kind == k) && !skip(p.from) && !skip(p.to)
			if fits && (count < 0 || len(now) < count) {
				now = append(now, p)
				if !d.HasArg("copy") {
					continue
				}
			}
			later = append(later, p)
		}
		if len(now) == 0 {
			return
		}
		s.packets = later
		for _, p := range now {
			if d.Cmd == "drop" {
				s.printf("lost: %s", s.describe(p))
				continue
			}
			k := p.message.Kind.String()
			if p.message.Witness != nil {
				k = p.message.Witness.Kind.String()
			}
			s.printf("%s <- %s: %s", name(p.to), name(p.from), k)
			s.deliver(p.from, p.to, p.message)
		}
	}
	if d.HasArg("all") {
		d.Fatalf(s.t, "the members still talk after %d rounds:\n%s", rounds, tail(s.out.String()))
	}
}

func (s *steps) show(d *datadriven.TestData) {
	if d.CmdArgs[0].Key == "network" {
		for _, p := range s.packets {
			s.printf("%s", s.describe(p))
		}
		return
	}
	n := s.member(d, 0)
	if n.p == nil {
		s.printf("%s is down", name(n.id))
		return
	}
	s.printf("%s: %s", name(n.id), describeStanding(n.p.PartitionStatus()))
	registers := s.registers(n)
	for _, key := range slices.Sorted(maps.Keys(registers)) {
		var record peerv1.RegisterRecord
		if err := record.UnmarshalVT(registers[key]); err != nil {
			s.t.Fatal(err)
		}
		s.printf("  %s = %s", key, short(record.Value))
	}
}

// registers are the records of a member's registers, as the state on its disk and the log up to what is synced make
// them.
func (s *steps) registers(n *node) map[string][]byte {
	registers := map[string][]byte{}
	for key, raw := range n.journal.Kind([]byte("r")) {
		registers[string(key[1:])] = bytes.Clone(raw)
	}
	var own peerv1.PartitionRecord
	raw, _ := n.journal.Get([]byte("P"))
	if err := own.UnmarshalVT(raw); err != nil {
		s.t.Fatal(err)
	}
	for _, raw := range n.journal.Kind([]byte("L")) {
		var e peerv1.LogEntry
		if err := e.UnmarshalVT(raw); err != nil {
			s.t.Fatal(err)
		}
		if e.Index > own.Commit {
			break
		}
		for _, r := range e.Records {
			if r.Key[0] == 'r' {
				registers[string(r.Key[1:])] = r.Value
			}
		}
		for _, key := range e.Deleted {
			if key[0] == 'r' {
				delete(registers, string(key[1:]))
			}
		}
	}
	return registers
}

// newStepped is a world in which nothing happens by itself.
func newStepped(t *testing.T, s *steps, members, faults, witnesses int, o protocol.Sync) *world {
	return newWorldWith(t, s, 0, members, faults, witnesses, o)
}

func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/correct", func(t *testing.T, path string) {
		if runScript(t, path, true) == history.Violation {
			t.Error("what clients saw is not linearizable")
		}
	})
}

// TestMistakes runs scripts of mutants, with the mutant and without it: only the correct protocol shows its clients
// something linearizable.
func TestMistakes(t *testing.T) {
	program := mutants.Build(t)
	scripts, err := filepath.Glob("testdata/mistakes/*/*.txt")
	if err != nil || len(scripts) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, path := range scripts {
		mutant := strings.TrimSuffix(strings.TrimPrefix(filepath.ToSlash(path), "testdata/mistakes/"), ".txt")
		program.Run(t, mutant, mutant, func(t *testing.T) {
			if got := runScript(t, path, true); got != history.Violation {
				t.Errorf("what clients saw is %q", got)
			}
		})
		t.Run(mutant+", without it", func(t *testing.T) {
			if got := runScript(t, path, false); got != history.Linearizable {
				t.Errorf("what clients saw is %q", got)
			}
		})
	}
}
