// Package script tests protocols by data: a file holds commands, and below each what every member did about
// it, so that it reads like a message diagram of a paper. The idea is that of etcd raft's interaction tests.
//
// Members are a, b, c and so on. The commands:
//
//	cluster n=3 [disk=manual]        members, with batches that are durable at once, or when a script says
//	read a k, write a k v, delete a k, rmw a k add.v1 args=(1)
//	                                 an operation that member a coordinates; [session=7 number=1] [deadline=1s] from now
//	read a k regular, fence a        a read that may be regular, and a fence; each of the five may come [after=(1,3)], after what
//	                                 those operations returned
//	read a k regular client=S        the operation is of session S, and comes after what S depends on
//	tell S T                         session S tells session T of all that it knows
//	judge                            whether what the sessions saw is regular sequential; an operation without a client is one by itself
//	deliver [from=a] [to=b] [kind=READ1] [count=1] [copy]
//	deliver kind=GUS_*
//	                                 the messages that are under way now; copy leaves them to be delivered again
//	deliver all [not=a]              and those that follow, until none is left; not=a leaves what a sends or gets
//	drop [from=a] [to=b] [kind=READ1] [count=1]
//	tick 1s [a]                      time passes, for all members or for one
//	persist a [count=1]              a's batches become durable, in order
//	crash a                          a stops; what is not durable is lost
//	restart a                        a starts from its disk
//	wipe a                           a starts from an empty disk, which no view names
//	change [join=1] [leave=(a,b)]    the next view is a joint one, in which new members join; nobody knows it yet
//	finish, abandon                  the next view is the plain one after the change, or before it
//	configure a                      a takes on the newest view: what it put becomes durable, and its operations go on
//	show a                           the records of a, as it sees them; ? marks those that are not durable
//	show network                     the messages under way
//
// go test with -rewrite replaces the expected output by the actual one.
package script

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/georegister/georegister/replica/history"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/member"
	"github.com/georegister/georegister/replica/protocol/notation"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// Run runs a script, or every script of a directory, each with members of its own.
func Run(t *testing.T, path string, factory member.Factory) {
	t.Helper()
	run(t, path, factory, func(*world) {})
}

// RunJudged is Run, and what the clients of each script saw must be judged so by the model of regular sequential
// consistency.
func RunJudged(t *testing.T, path string, factory member.Factory, want history.Outcome) {
	t.Helper()
	run(t, path, factory, func(w *world) {
		v, err := w.sessions.judge(t)
		if err != nil {
			t.Fatal(err)
		}
		if v.Outcome != want {
			t.Errorf("%s: what the clients saw is judged as %s, want %s\n%s", path, v.Outcome, want, v.Explanation)
		}
	})
}

func run(t *testing.T, path string, factory member.Factory, end func(*world)) {
	t.Helper()
	datadriven.Walk(t, path, func(t *testing.T, path string) {
		w := &world{factory: factory, functions: register.NewRegistry()}
		defer end(w)
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			w.t = t
			w.out.Reset()
			if err := w.command(d); err != nil {
				d.Fatalf(t, "%v", err)
			}
			if w.out.Len() == 0 {
				return "nothing\n"
			}
			return w.out.String()
		})
	})
}

// command runs one command of a script.
func (w *world) command(d *datadriven.TestData) error {
	if d.Cmd == "cluster" {
		return w.cluster(d)
	}
	if len(w.nodes) == 0 {
		return fmt.Errorf("a script begins with cluster")
	}
	command, known := map[string]func(*datadriven.TestData) error{
		"read": w.submit, "write": w.submit, "delete": w.submit, "rmw": w.submit, "fence": w.submit,
		"deliver": w.network, "drop": w.network, "tick": w.tick, "tell": w.tell, "judge": w.judge, "show": w.show,
		"change": w.change, "finish": w.change, "abandon": w.change,
	}[d.Cmd]
	if known {
		return command(d)
	}
	n, err := w.node(d, 0)
	if err != nil {
		return err
	}
	switch d.Cmd {
	case "persist":
		count := len(n.batches)
		d.MaybeScanArgs(w.t, "count", &count)
		if count > len(n.batches) {
			return fmt.Errorf("%s has %d batches that are not durable, not %d", n.name, len(n.batches), count)
		}
		for range count {
			w.persist(n)
		}
	case "crash":
		w.crash(n)
	case "restart":
		return w.start(n)
	case "wipe":
		w.wipe(n)
		return w.start(n)
	case "configure":
		return w.configure(n)
	default:
		return fmt.Errorf("unknown command %q", d.Cmd)
	}
	return nil
}

func (w *world) cluster(d *datadriven.TestData) error {
	n := 3
	d.MaybeScanArgs(w.t, "n", &n)
	if n < 1 || n > 26 {
		return fmt.Errorf("a cluster has 1 to 26 members, not %d", n)
	}
	w.sessions = newSessions()
	var mode string
	d.MaybeScanArgs(w.t, "disk", &mode)
	w.view = view.View{Cluster: "script", Epoch: 1}
	for i := range n {
		id := view.MemberID(i + 1)
		w.view.Members = append(w.view.Members, view.Member{ID: id, Site: notation.Member(id)})
		w.add(id)
	}
	for _, m := range w.nodes {
		m.view = w.view
		if err := w.start(m); err != nil {
			return err
		}
	}
	w.out.Reset() // that members vote is no news
	for _, m := range w.nodes {
		for len(m.batches) > 0 {
			w.persist(m)
		}
	}
	w.out.Reset()
	w.manual = mode == "manual"
	w.printf("n = %d", n)
	return nil
}

// operations are the commands that submit one, and how many words each has behind the member: a key, and a value or a
// function.
var operations = map[string]struct {
	kind  register.Kind
	words int
}{
	"read": {register.Read, 1}, "write": {register.Write, 2}, "delete": {register.Write, 1}, "rmw": {register.RMW, 2},
	"fence": {register.Fence, 0},
}

func (w *world) submit(d *datadriven.TestData) error {
	n, err := w.node(d, 0)
	if err != nil {
		return err
	}
	var words []string // positional arguments behind the member
	for _, a := range d.CmdArgs[1:] {
		if len(a.Vals) == 0 {
			words = append(words, a.Key)
		}
	}
	form := operations[d.Cmd]
	regular := d.Cmd == "read" && len(words) == 2 && words[1] == "regular"
	if len(words) != form.words && !regular {
		return fmt.Errorf("%s takes a member and %d words, not %d", d.Cmd, form.words, len(words))
	}
	words = append(words, "") // a fence has no key
	op := register.Operation{Kind: form.kind, Key: words[0], Regular: regular}
	switch d.Cmd {
	case "write":
		op.Value = register.Value(words[1])
	case "rmw":
		op.Call = register.Call{Function: words[1], MaxValueBytes: limits.ValueBytes}
		args, _ := d.Arg("args")
		for _, v := range args.Vals {
			op.Call.Args = append(op.Call.Args, []byte(v))
		}
	}
	d.MaybeScanArgs(w.t, "session", &op.ID.Session)
	d.MaybeScanArgs(w.t, "number", &op.ID.Number)
	if op.ID.Session != 0 {
		op.ID.FirstIncomplete, op.ID.IssuedAt = op.ID.Number, 1
	}
	if n.member == nil {
		return fmt.Errorf("%s is down", n.name)
	}
	client := fmt.Sprintf("operation %d", len(w.operations)+1)
	d.MaybeScanArgs(w.t, "client", &client)
	if err := w.after(d, client); err != nil {
		return err
	}
	w.sessions.attach(client, &op)
	request := protocol.Request{Operation: op}
	if deadline, ok := d.Arg("deadline"); ok {
		after, err := time.ParseDuration(strings.Join(deadline.Vals, ""))
		if err != nil {
			return fmt.Errorf("deadline: %w", err)
		}
		request.Deadline = w.now.Add(after)
	}
	w.operations = append(w.operations, w.sessions.begin(client, n.name, op))
	request.Handle = uint64(len(w.operations)) // the first is 1
	w.numbers = append(w.numbers, request.Handle)
	if w.inputs == nil {
		w.printf("%s: operation %d, %s", n.name, request.Handle, describeOperation(op))
	} else {
		w.given(n, client+d.String(), nil)
	}
	n.member.Submit(request)
	w.ready(n)
	return nil
}

func (w *world) network(d *datadriven.TestData) error {
	var filter filter
	count, rounds := -1, 1
	d.MaybeScanArgs(w.t, "from", &filter.from)
	d.MaybeScanArgs(w.t, "to", &filter.to)
	d.MaybeScanArgs(w.t, "kind", &filter.kind)
	d.MaybeScanArgs(w.t, "not", &filter.not)
	d.MaybeScanArgs(w.t, "count", &count)
	if d.HasArg("all") {
		rounds = 1000 // a protocol that goes on for ever fails the script
	}
	for range rounds {
		var now, later []packet
		for _, p := range w.packets {
			if filter.fits(p) && (count < 0 || len(now) < count) {
				now = append(now, p)
				if !d.HasArg("copy") {
					continue
				}
			}
			later = append(later, p)
		}
		if len(now) == 0 {
			return nil
		}
		w.packets = later
		for _, p := range now {
			if d.Cmd == "drop" {
				w.printf("lost: %s", p)
			} else {
				w.deliver(p)
			}
		}
	}
	if d.HasArg("all") {
		return fmt.Errorf("the members still talk after %d rounds", rounds)
	}
	return nil
}

// filter chooses packets; what is empty fits all.
type filter struct{ from, to, kind, not string }

func (f filter) fits(p packet) bool {
	from, to := notation.Member(p.from), notation.Member(p.to)
	return (f.from == "" || f.from == from) && (f.to == "" || f.to == to) &&
		f.fitsKind(p.message.Kind.String()) && f.not != from && f.not != to
}

// fitsKind compares the name of a kind; a filter that ends with * is the beginning of one.
func (f filter) fitsKind(kind string) bool {
	beginning, several := strings.CutSuffix(f.kind, "*")
	return f.kind == "" || f.kind == kind || several && strings.HasPrefix(kind, beginning)
}

func (w *world) tick(d *datadriven.TestData) error {
	if len(d.CmdArgs) == 0 {
		return fmt.Errorf("tick takes a duration")
	}
	after, err := time.ParseDuration(d.CmdArgs[0].Key)
	if err != nil {
		return fmt.Errorf("tick: %w", err)
	}
	w.now = w.now.Add(after)
	only := ""
	if len(d.CmdArgs) > 1 {
		only = d.CmdArgs[1].Key
	}
	for _, n := range w.nodes {
		if n.member != nil && (only == "" || only == n.name) {
			w.given(n, after.String(), nil)
			n.member.Tick(w.now)
			w.ready(n)
		}
	}
	return nil
}

// node is the member that the i-th argument names.
func (w *world) node(d *datadriven.TestData, i int) (*node, error) {
	if len(d.CmdArgs) > i {
		for _, n := range w.nodes {
			if n.name == d.CmdArgs[i].Key {
				return n, nil
			}
		}
	}
	return nil, fmt.Errorf("%s takes one of the members a to %s", d.Cmd, w.nodes[len(w.nodes)-1].name)
}
