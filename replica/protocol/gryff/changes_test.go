package gryff_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/membership"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/abd"
	"github.com/georegister/georegister/replica/protocol/gryff"
	"github.com/georegister/georegister/replica/protocol/member"
	"github.com/georegister/georegister/replica/protocol/protocoltest"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
	"github.com/georegister/georegister/test/mutants"
)

// The simulator looks for what a change of the view breaks with everything else that can go wrong. These tests are
// smaller: disks are at once durable and never lost, so that every operation of a member that stays has to end well.

const (
	keys       = 3
	tokenBytes = 3
)

type packet struct {
	from, to view.MemberID
	message  *peerv1.Message
}

type changing struct {
	id      view.MemberID
	disk    protocoltest.Disk
	boot    uint32
	view    view.View
	journal *protocol.Journal
	member  *member.Member // nil: it has left, or waits for its first view
	cut     bool           // nothing reaches it or comes from it
}

// task is an operation and what came of it.
type task struct {
	at         *changing
	kind       register.Kind
	key        string
	token      string
	begun, end int // steps; 0: not ended
	result     register.Result
	lost       bool // its member has left
}

// storm is a cluster whose members change while clients work on one key.
type storm struct {
	*rand.Rand
	factory member.Factory
	rmws    bool
	view    view.View
	nodes   []*changing
	packets []packet
	now     protocol.Instant
	step    int
	tasks   []*task
	calm    bool // nobody is cut off any more
	wrong   string
	paths   map[string]int
}

func (s *storm) fail(format string, args ...any) {
	if s.wrong == "" {
		s.wrong = fmt.Sprintf("step %d: ", s.step) + fmt.Sprintf(format, args...)
	}
}

func (s *storm) node(id view.MemberID) *changing { return s.nodes[id-1] }

func (s *storm) newcomer() *changing {
	n := &changing{id: view.MemberID(len(s.nodes) + 1), disk: protocoltest.Disk{}}
	s.nodes = append(s.nodes, n)
	return n
}

// give makes a member take on the newest view.
func (s *storm) give(n *changing) {
	var unfinished []protocol.Request
	if n.member != nil {
		unfinished = n.member.Unfinished()
		n.member = nil
	}
	n.view = s.view
	if n.view.Index(n.id) < 0 {
		for _, r := range unfinished {
			s.tasks[r.Handle].lost = true
		}
		return
	}
	n.boot++
	if n.journal == nil {
		n.journal = protocol.NewJournal(n.disk)
	}
	c := protocol.Config{
		Self: n.id, View: n.view, Boot: n.boot, Functions: register.NewRegistry(), Limits: register.DefaultLimits(),
		Retry: time.Second, Suspect: 4 * time.Second, Seed: s.Uint64(), Nonce: s.Uint64(),
		Bootstrap: true, Continued: true,
	}
	for _, m := range n.view.Members {
		if m.ID != n.id {
			c.Nearest = append(c.Nearest, m.ID)
		}
	}
	s.Shuffle(len(c.Nearest), func(i, j int) { c.Nearest[i], c.Nearest[j] = c.Nearest[j], c.Nearest[i] })
	c.Count = func(path string) { s.paths[path]++ }
	m, err := member.Start(c, n.journal, s.factory)
	if err != nil {
		s.fail("start %d: %v", n.id, err)
		return
	}
	n.member = m
	m.Tick(s.now)
	s.ready(n)
	for _, r := range unfinished {
		m.Submit(r)
		s.ready(n)
	}
}

func (s *storm) ready(n *changing) {
	e := n.member.Ready()
	if e.Fault != nil {
		s.fail("member %d stops: %v", n.id, e.Fault)
		return
	}
	n.disk.Write(e.Persist)
	if e.Persist.Sequence != 0 {
		n.journal.Persisted(e.Persist.Sequence)
	}
	for _, m := range slices.Concat(e.Send, e.SendAfterPersist) {
		s.packets = append(s.packets, packet{n.id, m.To, m.Message})
	}
	for _, c := range slices.Concat(e.Complete, e.CompleteAfterPersist) {
		t := s.tasks[c.Handle]
		if t.end != 0 {
			s.fail("operation %d completes twice, with %+v and %+v", c.Handle, t.result, c.Result)
		}
		t.end, t.result = s.step, c.Result
	}
}

func (s *storm) deliver() {
	if len(s.packets) == 0 {
		return
	}
	i := s.IntN(len(s.packets))
	p := s.packets[i]
	if s.IntN(20) > 0 { // or it comes again
		s.packets[i] = s.packets[len(s.packets)-1]
		s.packets = s.packets[:len(s.packets)-1]
	}
	from, to := s.node(p.from), s.node(p.to)
	if from.cut || to.cut || to.member == nil || s.IntN(20) == 0 {
		return
	}
	to.member.Receive(p.from, p.message.CloneVT())
	s.ready(to)
	if p.message.Kind == peerv1.Kind_PRE_ACCEPT_OK && !s.calm && s.IntN(10) == 0 {
		to.cut = true // it may have committed, and nobody hears of it
	}
}

func (s *storm) tick(d time.Duration) {
	s.now = s.now.Add(d)
	for _, n := range s.nodes {
		if n.member != nil {
			n.member.Tick(s.now)
			s.ready(n)
		}
	}
}

func (s *storm) submit() {
	n := s.nodes[s.IntN(len(s.nodes))]
	if n.member == nil {
		return
	}
	t := &task{at: n, begun: s.step, token: fmt.Sprintf("%0*d", tokenBytes, len(s.tasks))}
	op := register.Operation{Key: string(rune('a' + s.IntN(keys))), Kind: register.Read}
	switch draw := s.IntN(5); {
	case s.rmws && draw < 3:
		op.Kind = register.RMW
		op.Call = register.Call{Function: register.Append, Args: [][]byte{[]byte(t.token)}, MaxValueBytes: 1 << 20}
	case draw < 4:
		op.Kind, op.Value = register.Write, register.Value(t.token)
	}
	t.kind, t.key = op.Kind, op.Key
	s.tasks = append(s.tasks, t)
	n.member.Submit(protocol.Request{Handle: uint64(len(s.tasks) - 1), Operation: op})
	s.ready(n)
}

// manage does the manager's next step, if it may.
func (s *storm) manage() {
	holders := map[view.MemberID]string{}
	told := membership.Snapshot{View: s.view}
	for _, n := range s.nodes {
		if n.member != nil {
			holders[n.id] = n.view.Digest()
			c := n.member.Change()
			told.Members = append(told.Members, membership.MemberReport{
				Member: n.id, Digest: n.view.Digest(), Settled: c.Settled, Fetched: c.Fetched,
			})
		}
		told.Absent = append(told.Absent, n.id) // nobody is waited for
	}
	next, err := s.view, error(nil)
	switch {
	case s.view.Joint():
		if d := membership.Decide(told); d.Kind == membership.Finished {
			next = d.Next
		} else if s.IntN(40) == 0 {
			next, err = membership.Abandon(s.view)
		}
	case membership.Committed(s.view, holders) && s.IntN(2) == 0:
		var joins []membership.Founder
		var leaves []view.MemberID
		size := s.view.Size()
		for range s.IntN(3) {
			if size < 5 {
				n := s.newcomer()
				joins = append(joins, membership.Founder{ID: n.id, Disk: fmt.Sprint("disk-", n.id)})
				size++
			}
		}
		for _, i := range s.Perm(s.view.Size())[:min(s.IntN(3), size-1, s.view.Size())] {
			leaves = append(leaves, s.view.Members[i].ID)
		}
		if len(joins)+len(leaves) == 0 {
			return
		}
		if next, err = membership.Change(s.view, joins, leaves); err != nil {
			next, err = s.view, nil // nobody would be left
		}
	}
	if err != nil {
		s.fail("manage: %v", err)
	}
	s.view = next
}

// behind lists the members of the newest view, or of none any more, that hold an older one.
func (s *storm) behind() (behind []*changing) {
	for _, n := range s.nodes {
		if n.view.Epoch < s.view.Epoch && (n.member != nil || s.view.Index(n.id) >= 0) {
			behind = append(behind, n)
		}
	}
	return behind
}

func (s *storm) run(steps int) {
	n := 1 + 2*s.IntN(3)
	s.view = view.View{Cluster: "test", Epoch: 1}
	for range n {
		s.view.Members = append(s.view.Members, view.Member{ID: s.newcomer().id})
	}
	for _, n := range s.nodes {
		s.give(n)
	}
	for s.step = 1; s.step <= steps && s.wrong == ""; s.step++ {
		switch draw := s.IntN(1000); {
		case draw < 30:
			s.submit()
		case draw < 60:
			s.tick(time.Duration(s.IntN(500)) * time.Millisecond)
		case draw < 80:
			s.manage()
		case draw < 110:
			if behind := s.behind(); len(behind) > 0 {
				if n := behind[s.IntN(len(behind))]; !n.cut {
					s.give(n)
				}
			}
		case draw < 112:
			s.nodes[s.IntN(len(s.nodes))].cut = true
		case draw < 116:
			s.nodes[s.IntN(len(s.nodes))].cut = false
		default:
			s.deliver()
		}
	}
	s.calm = true
	for _, n := range s.nodes {
		n.cut = false
	}
	for _, n := range s.behind() {
		s.give(n)
	}
	for range 400 {
		for range 300 {
			s.step++
			s.deliver()
		}
		s.tick(time.Second)
		if s.quiet() || s.wrong != "" {
			return
		}
	}
}

func (s *storm) quiet() bool {
	return !slices.ContainsFunc(s.tasks, func(t *task) bool { return t.end == 0 && !t.lost })
}

// check orders all operations by their carstamps, and compares that with when they happened.
func (s *storm) check() {
	var ended []*task
	for i, t := range s.tasks {
		switch {
		case t.lost:
		case t.end == 0:
			s.fail("operation %d of member %d never ends", i, t.at.id)
		case t.result.Status != register.OK:
			s.fail("operation %d of member %d ends with %+v", i, t.at.id, t.result)
		default:
			ended = append(ended, t)
		}
	}
	for k := range keys {
		key := string(rune('a' + k))
		s.checkKey(slices.DeleteFunc(slices.Clone(ended), func(t *task) bool { return t.key != key }))
	}
}

func (s *storm) checkKey(ended []*task) {
	values := map[register.Carstamp]string{}
	updates := map[register.Carstamp]string{}
	for _, t := range ended {
		for _, u := range ended {
			if u.end != 0 && u.end < t.begun {
				if c := u.result.Carstamp.Compare(t.result.Carstamp); c > 0 || c == 0 && t.kind != register.Read {
					s.fail("%v %s at %v came before %v %s at %v", u.kind, u.token, u.result.Carstamp, t.kind,
						t.token, t.result.Carstamp)
				}
			}
		}
		if t.kind == register.Read {
			if v, known := values[t.result.Carstamp]; known && v != string(t.result.Value) {
				s.fail("%v is read as %q and %q", t.result.Carstamp, v, t.result.Value)
			}
			values[t.result.Carstamp] = string(t.result.Value)
			continue
		}
		if u, taken := updates[t.result.Carstamp]; taken {
			s.fail("%s and %s have carstamp %v both", u, t.token, t.result.Carstamp)
		}
		updates[t.result.Carstamp] = t.token
	}
	s.checkValues(values, updates)
}

// checkValues: a value is the write's of its carstamp, and what rmws appended to it since, each once.
func (s *storm) checkValues(values, updates map[register.Carstamp]string) {
	places := map[string]register.Carstamp{}
	for c, v := range values {
		first := c
		first.RMWs = 0
		if first.IsZero() != (len(v) == int(c.RMWs)*tokenBytes) ||
			!first.IsZero() && len(v) != int(c.RMWs+1)*tokenBytes {
			s.fail("%q is read at %v", v, c)
			return
		}
		for k := range int(c.RMWs) + 1 {
			at := first
			at.RMWs = uint64(k)
			i := k
			if first.IsZero() {
				i--
			}
			if i < 0 {
				continue
			}
			token := v[i*tokenBytes : (i+1)*tokenBytes]
			if want, known := updates[at]; known && want != token {
				s.fail("%q at %v has %s where %s belongs", v, c, token, want)
			}
			if p, known := places[token]; known && p != at {
				s.fail("%s took effect twice, at %v and %v", token, p, at)
			}
			places[token] = at
		}
	}
	for c, token := range updates {
		if p, known := places[token]; known && p != c {
			s.fail("%s took effect at %v and was told of %v", token, p, c)
		}
	}
}

func weather(seed uint64, factory member.Factory, rmws bool) *storm {
	s := &storm{
		Rand: rand.New(rand.NewPCG(seed, 7)), factory: factory, rmws: rmws, paths: map[string]int{},
	}
	s.run(6000)
	if s.wrong == "" {
		s.check()
	}
	return s
}

func TestClientsNoticeNoChange(t *testing.T) {
	const seeds = 25
	for name, factory := range map[string]member.Factory{"gryff": gryff.Factory, "abd": abd.Factory} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			epochs, ended := uint64(0), 0
			paths := map[string]int{}
			for seed := range uint64(seeds) {
				s := weather(seed, factory, name == "gryff")
				if s.wrong != "" {
					t.Errorf("seed %d: %s", seed, s.wrong)
				}
				epochs += s.view.Epoch - 1
				ended += len(s.tasks)
				for path, n := range s.paths {
					paths[path] += n
				}
			}
			t.Logf("%d views, %d operations, paths %v", epochs, ended, paths)
			if epochs < 5*seeds || ended < 100*seeds {
				t.Error("too few views or operations to show anything")
			}
			must := abd.ChangePaths()
			if name == "gryff" {
				must = append(gryff.ChangePaths(), "recover.fast", "recover.accepted", "recover.no-op")
			}
			for _, path := range must {
				if paths[path] == 0 {
					t.Errorf("path %s is never taken", path)
				}
			}
		})
	}
}

func TestMistakesInChangesAreNoticed(t *testing.T) {
	if testing.Short() {
		t.Skip("the searches take seconds")
	}
	program := mutants.Build(t)
	for _, mutant := range []string{"gryff/resume-with-new-tag", "instance/resume-as-new", "quorum/count-one-side"} {
		program.Run(t, mutant, mutant, mustNotice)
	}
}

func mustNotice(t *testing.T) {
	t.Helper()
	for seed := range uint64(150) {
		s := weather(seed, gryff.Factory, true)
		if s.wrong != "" && !strings.Contains(s.wrong, "never ends") {
			t.Logf("seed %d: %s", seed, s.wrong)
			return
		}
	}
	t.Error("nobody noticed")
}
