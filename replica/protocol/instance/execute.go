package instance

import (
	"cmp"
	"slices"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol/session"
	"github.com/georegister/georegister/replica/protocol/wire"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// executor executes committed instances. A key's state after them is a KeyState, whose fields are explained where they
// are defined (api/peer/v1/instance.proto).
type executor struct {
	*store
	roots []*instance `digest:"-"` // of one call of executeOne
}

// executeOne executes the first component that is ready, and returns it, or nil if there is none: strongly connected
// components in the order of the graph, and within one by (seq, number, writer), which is the same everywhere. Ready is a
// component of committed instances whose dependencies outside it are all executed (ready); dependencies that are known by
// name alone are asked about, and their dependents wait (needs).
//
// EPaxos breaks cycles by seq, so that a command that only committed before another began comes first: clients of
// writes may know that it did. What is answered after it was *executed*, that is, after everything it depends on was
// committed, needs no seq, since what begins later can't enter its component. So Gryff's rmws have none.
func (p *executor) executeOne(o *object) []*instance {
	p.roots = append(p.roots[:0], o.instances...) // needs may add what it misses
	for _, root := range p.roots {
		if root.status != peerv1.Status_COMMITTED {
			continue
		}
		component := p.ready(root)
		if component == nil {
			continue
		}
		if len(component) > 1 {
			p.took(pathCycle)
		}
		slices.SortFunc(component, func(a, b *instance) int {
			return cmp.Or(cmp.Compare(a.seq, b.seq), cmp.Compare(a.id.number, b.id.number),
				cmp.Compare(a.id.writer, b.id.writer))
		})
		for _, i := range component {
			p.executeInstance(i)
		}
		return component
	}
	return nil
}

// ready is Tarjan's algorithm from a committed instance, up to the first component that it finds: that depends on nothing
// outside itself. It returns nil if something that the root needs is not committed. Its depth is bounded by the instances
// of the key that are committed and not executed.
func (p *executor) ready(root *instance) []*instance {
	needs, committed := p.needs(root)
	if !committed {
		return nil
	}
	if len(needs) == 0 {
		root.alone[0] = root
		return root.alone[:] // as almost always
	}
	var stack []*instance
	numbers := map[*instance]int{} // positions on the stack, from 1; never ranged over
	var visit func(i *instance, needs []*instance) (lowest int, component []*instance, committed bool)
	visit = func(i *instance, needs []*instance) (lowest int, component []*instance, committed bool) {
		stack = append(stack, i)
		number := len(stack)
		numbers[i], lowest = number, number
		for _, j := range needs {
			low, seen := numbers[j]
			if !seen {
				next, committed := p.needs(j)
				if !committed {
					return 0, nil, false
				}
				if low, component, committed = visit(j, next); !committed || component != nil {
					return low, component, committed
				}
			}
			lowest = min(lowest, low)
		}
		if lowest == number {
			component = stack[number-1:]
		}
		return lowest, component, true
	}
	_, component, _ := visit(root, needs)
	return component
}

// needs lists the unexecuted instances that one depends on. It reports false, and begins to wait for what is
// missing, if one of them is not committed here.
func (p *executor) needs(i *instance) ([]*instance, bool) {
	o := i.object
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
				j = p.instance(o, instanceID{d.writer, n})
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
func (p *executor) askAbout(missing, dependent *instance) {
	if !p.Config.View.Joint() || dependent.reportTo == 0 {
		return
	}
	to := p.Config.Nearest
	if dependent.reportTo != p.Config.Self {
		to = []view.MemberID{dependent.reportTo}
	}
	p.SendAll(to, p.query(missing, 0, 0))
}

// executeInstance is EXECUTE of algorithm 4, for each command of the batch.
func (p *executor) executeInstance(i *instance) {
	o := i.object
	state := o.state
	if o.shared {
		state, o.shared = successor(state), false
		state.Previous = wire.Record(wire.OfRecord(state.Previous))
	}
	made := newExecution(i)
	execution := &made.Executed
	kept := execution
	o.duels = max(o.duels-1, 0)
	if i.reads() {
		// It leaves its number in the state, so that it is never executed again, and nothing of what it returned.
		kept = &peerv1.Executed{Id: execution.Id}
		execution.Answers = slices.Repeat([]*peerv1.Answer{wire.Answer(wire.OfRecord(state.Previous))}, len(i.commands))
		kept.Answers = slices.Repeat([]*peerv1.Answer{session.Forgotten}, len(i.commands))
		kept.Reads = o.execution(i.id.writer).GetReads() + 1
	} else if len(i.commands) > 0 {
		current := i.base
		if previous := wire.OfRecord(state.Previous); current.Carstamp.Less(previous.Carstamp) {
			current = previous
		}
		for _, c := range i.commands {
			execution.Answers = append(execution.Answers, p.executeCommand(state, &current, i.id.writer, c))
		}
		if state.Previous == nil {
			state.Previous = &peerv1.RegisterRecord{}
		}
		wire.PutRecord(state.Previous, current)
		state.Count++
		state.Seq = max(state.Seq, i.seq)
		if bounded := session.Bounded(execution.Answers); &bounded[0] != &execution.Answers[0] {
			kept = &peerv1.Executed{Id: execution.Id, Answers: bounded}
		}
		p.apply(o.key, current)
	}
	// In a component a later instance of the same writer can come first, by seq: this one was begun before, and recovered
	// after it.
	if last := o.execution(i.id.writer); last.GetId().GetNumber() > i.id.number {
		kept = &peerv1.Executed{Id: last.Id, Answers: last.Answers, Reads: last.Reads}
		if !i.reads() {
			kept.Reads = min(last.Reads, last.Id.Number-i.id.number) // what reads may leave out ends with it
		}
	}
	update := lastUpdate(o.execution(i.id.writer))
	if i.changes() {
		update = max(update, i.id.number)
	}
	kept.Idle = kept.Id.Number - kept.Reads - update
	e := o.execution(i.id.writer)
	o.state = state
	if !i.changes() && e.GetId().GetNumber() == kept.Id.Number && e.Reads == kept.Reads && e.Idle == kept.Idle {
		p.conclude(i, execution) // the state says so already
		return
	}
	setExecuted(state, kept)
	p.saveState(o)
	p.conclude(i, execution)
}

// lastUpdate is the number of the writer's latest instance that changed something; 0: there is none.
func lastUpdate(e *peerv1.Executed) uint64 { return e.GetId().GetNumber() - e.GetReads() - e.GetIdle() }

// execution is what executing one instance leaves in the state of its key, in one allocation.
type execution struct {
	peerv1.Executed
	id    peerv1.InstanceID
	first [1]*peerv1.Answer
}

func newExecution(i *instance) *execution {
	e := &execution{}
	e.id.Writer, e.id.Number = uint64(i.id.writer), i.id.number
	e.Id, e.Answers = &e.id, e.first[:0]
	return e
}

// executeCommand makes current what it is after a command that is no read.
func (p *executor) executeCommand(state *peerv1.KeyState, current *register.Versioned, w register.Writer, c *peerv1.Command) *peerv1.Answer {
	if answer := session.Recall(state, c); answer != nil {
		p.took(pathDuplicate)
		return answer
	}
	// All members hold the same, and refuse alike.
	if max(current.Carstamp.Timestamp, current.Carstamp.RMWs) >= register.MaxNumber {
		return &peerv1.Answer{Refused: register.Exhausted}
	}
	if c.Kind == peerv1.CommandKind_WRITE_COMMAND {
		current.Value = register.ValueOf(c.Present, c.Value)
		current.Carstamp = register.Carstamp{Timestamp: current.Carstamp.Timestamp + 1, Writer: w}
		answer := wire.Answer(register.Versioned{Carstamp: current.Carstamp})
		session.Remember(&p.Config.Tuning, state, c, answer)
		return answer
	}
	answer, _, err := session.Execute(&p.Config, state, c, current, current.Carstamp.Next())
	if err != nil {
		// The others know the function: going on without it would be another history.
		p.Fault("execute an agreed rmw: %w", err)
	}
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

// conclude ends an instance that is executed here.
func (p *executor) conclude(i *instance, e *peerv1.Executed) {
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
			d.overtaken = true
			p.enter(d, committed)
			p.AskAll(&d.asked)
		}
	}
}

// install takes the state of a member that is ahead, and returns the instances that it covers, and whether it brings
// anything: what changes a key executes in one order, so of two states the one with the larger count contains the other,
// but for no-ops and reads, which changed nothing.
func (p *executor) install(o *object, theirs *peerv1.KeyState) (covered []*instance, news bool) {
	ahead, behind := theirs, o.state
	if theirs.Count <= o.state.Count {
		ahead, behind = behind, ahead
	}
	state, news := successor(ahead), ahead == theirs
	for _, e := range behind.Executed {
		news = keepExecuted(state, e) || news
	}
	if !news {
		return nil, false
	}
	if ahead == theirs {
		p.apply(o.key, wire.OfRecord(state.Previous))
	}
	p.Took(pathStateInstalled)
	o.state, o.shared = state, true // it has parts of theirs
	p.saveState(o)
	for _, i := range o.instances {
		if i.id.number <= o.executed(i.id.writer) {
			covered = append(covered, i)
		}
	}
	for _, i := range covered {
		p.conclude(i, o.execution(i.id.writer))
	}
	return covered, true
}

// successor is a state to change. A state that others refer to never changes, nor does what any state refers to, but
// for the lists that are copied here.
func successor(s *peerv1.KeyState) *peerv1.KeyState {
	return &peerv1.KeyState{
		Previous: s.Previous, Count: s.Count, Horizon: s.Horizon, HorizonSession: s.HorizonSession, Seq: s.Seq,
		Executed: slices.Clone(s.Executed), Sessions: slices.Clone(s.Sessions),
	}
}

// keepExecuted adds what is executed unless the state has it, and reports whether it did.
func keepExecuted(state *peerv1.KeyState, e *peerv1.Executed) bool {
	if known := executionIn(state, e.GetId().GetWriter()); known != nil && known.GetId().GetNumber() >= e.GetId().GetNumber() {
		return false
	}
	setExecuted(state, e)
	return true
}

// executionIn is what a state has of a writer's executed instances, or nil.
func executionIn(state *peerv1.KeyState, writer uint64) *peerv1.Executed {
	for _, e := range state.Executed {
		if e.GetId().GetWriter() == writer {
			return e
		}
	}
	return nil
}
