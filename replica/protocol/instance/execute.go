package instance

import (
	"cmp"
	"slices"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol/session"
	"github.com/georegister/georegister/replica/protocol/stamp"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// execute runs every committed instance of a key whose dependencies are all committed: strongly connected
// components in the order of the graph, and within one by (seq, number, writer), which is the same everywhere.
//
// EPaxos breaks cycles by seq, so that a command that only committed before another began comes first: clients of
// writes may know that it did. What is answered after it was *executed*, that is, after everything it depends on was
// committed, needs no seq, since what begins later can't enter its component. So Gryff's rmws have none.
func (p *Core) execute(o *object) {
	for p.executeOne(o) {
	}
}

// executeOne runs the first component that is ready, and reports whether there was one. Ready is a component of committed
// instances whose dependencies outside it are all executed (ready); dependencies that are known by name alone are asked
// about, and their dependents wait (needs).
func (p *Core) executeOne(o *object) bool {
	for _, root := range slices.Clone(o.instances) { // needs may add what it misses
		if root.status != peerv1.Status_COMMITTED {
			continue
		}
		if component := p.ready(o, root); component != nil {
			if len(component) > 1 {
				p.took(pathCycle)
			}
			first := register.Writer(0)
			if p.mistakes.OrderBySelf {
				first = p.author
			}
			slices.SortFunc(component, func(a, b *instance) int {
				bySeq := cmp.Compare(a.seq, b.seq)
				if p.mistakes.OrderByNumber {
					bySeq = 0
				}
				return cmp.Or(bySeq, cmp.Compare(a.id.number, b.id.number), cmp.Compare(a.id.writer-first, b.id.writer-first))
			})
			for _, i := range component {
				p.executeInstance(i)
			}
			p.reportExecuted(component)
			return true
		}
	}
	return false
}

// ready is Tarjan's algorithm from a committed instance, without recursion. It returns the first component
// that depends on nothing outside itself, or nil if something that the root needs is not committed.
func (p *Core) ready(o *object, root *instance) []*instance {
	needs, ok := p.needs(o, root)
	if !ok {
		return nil
	}
	if len(needs) == 0 {
		return []*instance{root} // as almost always
	}
	type visit struct {
		*instance
		needs    []*instance
		low, num int
	}
	numbers := map[*instance]int{} // never ranged over
	var stack, path []*visit
	enter := func(i *instance) bool {
		needs, ok := p.needs(o, i)
		if !ok {
			return false
		}
		v := &visit{instance: i, needs: needs, num: len(numbers) + 1}
		v.low = v.num
		numbers[i] = v.num
		stack, path = append(stack, v), append(path, v)
		return true
	}
	if !enter(root) {
		return nil
	}
	for {
		v := path[len(path)-1]
		if len(v.needs) > 0 {
			next := v.needs[0]
			v.needs = v.needs[1:]
			if n, seen := numbers[next]; seen { // still on the stack: no component was taken off yet
				v.low = min(v.low, n)
			} else if !enter(next) {
				return nil
			}
			continue
		}
		if v.low == v.num { // the first component found is one that needs no other
			var component []*instance
			for _, w := range stack[slices.Index(stack, v):] {
				component = append(component, w.instance)
			}
			return component
		}
		path = path[:len(path)-1]
		path[len(path)-1].low = min(path[len(path)-1].low, v.low)
	}
}

// needs lists the unexecuted instances that one depends on. It reports false, and begins to wait for what is
// missing, if one of them is not committed here.
func (p *Core) needs(o *object, i *instance) ([]*instance, bool) {
	var needs []*instance
	complete := true
	for _, d := range i.deps.with(instanceID{i.id.writer, i.id.number - 1}) {
		last := d.number
		if d.writer == i.id.writer {
			last = i.id.number - 1
		}
		for n := o.executed(d.writer) + 1; n <= last; n++ {
			j := o.find(instanceID{d.writer, n})
			if j == nil {
				j = o.instance(p, instanceID{d.writer, n})
				j.status = peerv1.Status_HEARD
				p.scheduleRecovery(j)
				p.askAbout(j, i)
			}
			if j.status != peerv1.Status_COMMITTED {
				complete = false
				break // the first one tells, or brings a state with the rest
			}
			needs = append(needs, j)
		}
	}
	return needs, complete
}

// askAbout asks at once who told of an instance for what that one depends on. A newcomer to a joint view lacks the
// states of most keys, and the answers of rmws wait for its executions.
func (p *Core) askAbout(missing, dependent *instance) {
	if !p.Config.View.Joint() || dependent.reportTo == 0 {
		return
	}
	to := p.Config.Nearest
	if dependent.reportTo != p.Config.Self {
		to = []view.MemberID{dependent.reportTo}
	}
	p.SendAll(to, p.question(&coordination{instance: missing, phase: preparing}))
}

// executeInstance is EXECUTE of algorithm 4, for each command of the batch.
func (p *Core) executeInstance(i *instance) {
	o := i.object
	state := successor(o.state)
	execution := &peerv1.Executed{Id: &peerv1.InstanceID{Writer: uint64(i.id.writer), Number: i.id.number}}
	kept := &peerv1.Executed{Id: execution.Id}
	if i.reads() {
		// It leaves its number in the state, so that it is never executed again, and nothing of what it returned.
		execution.Answers = slices.Repeat([]*peerv1.Answer{session.Answer(stamp.OfRecord(state.Previous))}, len(i.commands))
		kept.Answers = slices.Repeat([]*peerv1.Answer{session.Forgotten}, len(i.commands))
		kept.Reads = o.execution(i.id.writer).GetReads() + 1
	} else if len(i.commands) > 0 {
		current := i.base
		if previous := stamp.OfRecord(state.Previous); current.Carstamp.Less(previous.Carstamp) && !p.mistakes.ForgetPrevious {
			current = previous
		}
		for _, c := range i.commands {
			execution.Answers = append(execution.Answers, p.executeCommand(state, &current, i.id.writer, c))
		}
		state.Previous = stamp.Record(current)
		state.Count++
		state.Seq = max(state.Seq, i.seq)
		kept.Answers = session.Bounded(execution.Answers)
		p.apply(o.key, current)
	}
	// In a component a later instance of the same writer can come first, by seq: this one was begun before, and recovered
	// after it.
	if last := o.execution(i.id.writer); last.GetId().GetNumber() > i.id.number && !p.mistakes.ExecutedGoesBack {
		kept = &peerv1.Executed{Id: last.Id, Answers: last.Answers, Reads: last.Reads}
		if !i.reads() {
			kept.Reads = min(last.Reads, last.Id.Number-i.id.number) // what reads may leave out ends with it
		}
	}
	setExecuted(state, kept)
	o.state = state
	p.saveState(o)
	p.settle(i, execution)
}

// executeCommand makes current what it is after a command that is no read.
func (p *Core) executeCommand(state *peerv1.KeyState, current *register.Versioned, w register.Writer, c *peerv1.Command) *peerv1.Answer {
	if !p.mistakes.ForgetSessions {
		if answer := session.Recall(state, c); answer != nil {
			p.took(pathDuplicate)
			return answer
		}
	}
	// All members hold the same, and refuse alike.
	if max(current.Carstamp.Timestamp, current.Carstamp.RMWs) >= register.MaxNumber {
		return &peerv1.Answer{Refused: register.Exhausted}
	}
	if c.Kind == peerv1.CommandKind_WRITE_COMMAND {
		current.Value = stamp.Value(c.Present, c.Value)
		current.Carstamp = register.Carstamp{Timestamp: current.Carstamp.Timestamp + 1, Writer: w}
		answer := session.Answer(register.Versioned{Carstamp: current.Carstamp})
		session.Remember(state, c, answer)
		return answer
	}
	out, err := p.Config.Functions.Apply(current.Value, session.Call(c))
	if err != nil {
		// The others know the function: going on without it would be another history.
		p.Fault("execute an agreed rmw: %w", err)
		return &peerv1.Answer{Refused: err.Error()}
	}
	if out.Refused == "" && out.Changed {
		current.Value = out.Next
	}
	current.Carstamp = current.Carstamp.Next()
	answer := session.Answer(register.Versioned{Carstamp: current.Carstamp, Value: out.Reply})
	answer.Refused = out.Refused
	session.Remember(state, c, answer)
	return answer
}

// setExecuted replaces what the state says of the writer; entries stay sorted by writer.
func setExecuted(state *peerv1.KeyState, e *peerv1.Executed) {
	at, found := slices.BinarySearchFunc(state.Executed, e.GetId().GetWriter(), func(x *peerv1.Executed, w uint64) int {
		return cmp.Compare(x.GetId().GetWriter(), w)
	})
	if found {
		state.Executed[at] = e
		return
	}
	state.Executed = slices.Insert(state.Executed, at, e)
}

// settle ends an instance that is executed here.
func (p *Core) settle(i *instance, e *peerv1.Executed) {
	d := i.coordination
	p.forget(i)
	switch {
	case d == nil:
	case !d.own:
		i.coordination = nil // a recovery ends with the execution; whoever misses it recovers too
		p.live.Remove(i.element)
	default:
		d.outcome = e
		if d.phase != committed {
			d.enter(p, committed)
			p.AskAll(&d.asked)
		}
	}
}

// reportExecuted tells those who wait for executions (algorithm 4, line 21), once they are durable.
func (p *Core) reportExecuted(component []*instance) {
	for _, i := range component {
		author := view.MemberID(i.id.writer.Member())
		if p.options.Registers == nil { // a coordinator waits for its own alone
			if i.coordination != nil {
				p.decideExecuted(i.coordination)
			}
			continue
		}
		switch {
		case author == p.Config.Self:
			if i.coordination != nil {
				p.decideExecuted(i.coordination)
			}
		case p.Config.View.Index(author) >= 0: // it may have been replaced since
			p.tellExecuted(i.object, i.id, author, 0, false)
		}
		if i.reportTo != 0 && i.reportTo != author && i.reportTo != p.Config.Self {
			p.tellExecuted(i.object, i.id, i.reportTo, 0, false)
		}
	}
}

// install takes the state of a member that is ahead: what changes a key executes in one order, so of two states
// the one with the larger count contains the other, but for no-ops and reads, which changed nothing.
func (p *Core) install(o *object, theirs *peerv1.KeyState) {
	ahead, behind := theirs, o.state
	if theirs.Count <= o.state.Count {
		ahead, behind = behind, ahead
	}
	state, news := successor(ahead), ahead == theirs
	for _, e := range behind.Executed {
		news = keepExecuted(state, e) || news
	}
	if !news {
		return
	}
	if ahead == theirs {
		p.apply(o.key, stamp.OfRecord(state.Previous))
	}
	p.Took(pathStateInstalled)
	o.state = state
	p.saveState(o)
	var covered []*instance
	for _, i := range o.instances {
		if i.id.number <= o.executed(i.id.writer) {
			covered = append(covered, i)
		}
	}
	for _, i := range covered {
		p.settle(i, o.execution(i.id.writer))
	}
	p.reportExecuted(covered)
	p.execute(o)
}

// successor is a state to change. A state that was sent never changes, nor does what it refers to, but for the
// lists that are copied here.
func successor(s *peerv1.KeyState) *peerv1.KeyState {
	return &peerv1.KeyState{
		Previous: s.Previous, Count: s.Count, Horizon: s.Horizon, HorizonSession: s.HorizonSession, Seq: s.Seq,
		Executed: slices.Clone(s.Executed), Sessions: slices.Clone(s.Sessions),
	}
}

// keepExecuted adds what is executed unless the state has it, and reports whether it did.
func keepExecuted(state *peerv1.KeyState, e *peerv1.Executed) bool {
	for _, x := range state.Executed {
		if x.GetId().GetWriter() == e.GetId().GetWriter() && x.GetId().GetNumber() >= e.GetId().GetNumber() {
			return false
		}
	}
	setExecuted(state, e)
	return true
}
