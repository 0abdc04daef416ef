package simulator

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/simulator/check"
	"github.com/georegister/georegister/replica/simulator/clients"
	"github.com/georegister/georegister/replica/simulator/cluster"

	"github.com/georegister/georegister/replica/simulator/schedule"
)

// A manifest promises that so many disks can be lost, for good, without losing what was acknowledged. Schedules are
// held to that at some of their answers: each set of disks that may be lost at that moment is lost, in a run of its
// own, all other faults end, and what clients saw until then must still be so.

// promised are the schedules that lose disks at so many answers, or at all if there are fewer, which are spread over the
// schedule: at each of them every set of disks that may be lost then.
func promised(ctx context.Context, s schedule.Schedule, start Start, answers int) (all []schedule.Schedule) {
	whole := until(ctx, s, start, 0)
	answers = min(answers, whole.Clients.Answered)
	for i := range answers {
		if ctx.Err() != nil {
			break
		}
		answer := (whole.Clients.Answered*(2*i+1) + answers) / (2 * answers)
		for _, set := range until(ctx, s, start, answer).losable() {
			lossy := s
			lossy.Lost = &schedule.DiskLoss{Answer: answer, Members: set, PowerCut: answer%2 == 0}
			all = append(all, lossy)
		}
	}
	return all
}

// until runs the schedule up to an answer, or to the end of its faults if that is 0.
func until(ctx context.Context, s schedule.Schedule, start Start, answer int) *run {
	w := scheduled(ctx, s, start, watch{})
	w.Run(s.Settle, func() bool { return answer > 0 && w.Clients.Answered >= answer })
	return w
}

// losable are the sets of members, and of witnesses with a disk of their own, by the positions of their nodes, whose
// disks may be lost beside those that have not come back: those to which no other may be added.
func (w *run) losable() (sets [][]int) {
	var lost []int
	var add func(from int)
	add = func(from int) {
		largest := true
		for i, nd := range w.Nodes {
			if !w.losableNow(nd) {
				continue
			}
			largest = false
			if i < from {
				continue
			}
			nd.Lost = true
			lost = append(lost, i)
			add(i + 1)
			lost = lost[:len(lost)-1]
			nd.Lost = false
		}
		if largest && len(lost) > 0 {
			sets = append(sets, append([]int(nil), lost...))
		}
	}
	add(0)
	return sets
}

// losableNow reports whether the disk of a member, or of a witness that shares none, may be lost.
func (w *run) losableNow(nd *cluster.Node) bool {
	switch {
	case !nd.Born || nd.Lost || nd.Gone:
		return false
	case w.Environment.Partitioned == nil:
		return nd.Acts && nd.Witness == nil && w.Manager.Tolerates(nd)
	case nd.Witness != nil:
		_, serves := w.Made[w.Record].Witness(nd.Config.Self)
		return serves && nd.Witness.Beside == 0 && w.Manager.Expendable(nd)
	}
	return nd.Acts && w.Made[w.Record].Index(nd.Config.Self) >= 0 && w.Manager.Expendable(nd)
}

// mayLose reports whether all those disks may be lost at this moment. In a schedule that was made shorter it may be
// otherwise than in the one that they were chosen for: who was to join is not there, or other disks are lost
// already.
func (w *run) mayLose(l *schedule.DiskLoss) bool {
	var lost []*cluster.Node
	defer func() {
		for _, nd := range lost {
			nd.Lost = false
		}
	}()
	for _, i := range l.Members {
		if i >= len(w.Nodes) || !w.losableNow(w.Nodes[i]) {
			return false
		}
		w.Nodes[i].Lost = true
		lost = append(lost, w.Nodes[i])
	}
	return true
}

// liveWithout runs the world up to the loss of members, and has everything read at every site once what is under way is
// over.
func (w *run) liveWithout(l *schedule.DiskLoss, settle time.Duration) (check.Class, string) {
	w.Run(settle, func() bool { return w.Clients.Answered >= l.Answer })
	if w.Err != nil {
		return check.Broken, w.Err.Error()
	}
	if !w.mayLose(l) {
		return "", ""
	}
	w.lose(l)
	if !w.finish() {
		return w.stuck("after the loss ")
	}
	if !w.readAll(w.keys(), 1) {
		return w.stuck("at the end ")
	}
	return "", ""
}

// lose loses members for good. From now on no client begins anything, and there is no other fault.
func (w *run) lose(l *schedule.DiskLoss) {
	for _, i := range l.Members {
		w.Nodes[i].GiveUp()
		w.Diagram.Note(i, "is lost for good")
	}
	for _, nd := range w.Nodes {
		if l.PowerCut && !nd.Down {
			nd.Crash(0, 500)
		}
	}
	for _, c := range w.Clients.All {
		c.Source = &clients.Planned{}
	}
	w.Faultless = true
	w.Settle()
}

// liveUntil runs the world up to an outage: what a manifest promises of members that are lost. Then each key is read at
// every site, updated once more, and read again.
func (w *run) liveUntil(s schedule.Schedule) (check.Class, string) {
	answered := 0
	early := w.Run(s.Settle, func() bool {
		if s.Outage.Answer == 0 || w.Clients.Answered == answered {
			return false
		}
		answered = w.Clients.Answered
		return answered >= s.Outage.Answer && slices.ContainsFunc(w.Nodes, writes)
	})
	if !early {
		if class, reason := w.live(s.Settle); class != "" || w.hopeless {
			return class, reason
		}
	}
	if w.Err != nil {
		return check.Broken, w.Err.Error()
	}
	w.lose(&schedule.DiskLoss{Members: w.mostLosable(), PowerCut: true})
	if !w.finish() {
		return w.stuck("after an outage ")
	}
	keys := w.keys()
	// What is asked of members at rest, those of a schedule without operations are not asked: they may not know yet
	// whether their disks are older copies, and nothing here waits for that.
	w.quiet = w.quiet && len(keys) > 0
	if !w.readAll(keys, 1) || !w.updateAll(s.Abandon) || !w.readAll(keys, 1) {
		return w.stuck("after an outage ")
	}
	return "", ""
}

// writes reports whether a node has something that is not on its disk yet.
func writes(nd *cluster.Node) bool { return !nd.Down && len(nd.Log.Entries) > 0 }

// mostLosable is one of the sets of losable, without those that no member of it is added to: rather of those that have
// all on their disks, since the others lose what they have not.
func (w *run) mostLosable() (set []int) {
	for _, writing := range []bool{false, true} {
		for i := range w.Nodes {
			at := (i + int(w.Seed%uint64(len(w.Nodes)))) % len(w.Nodes)
			if nd := w.Nodes[at]; writes(nd) == writing && w.losableNow(nd) {
				nd.Lost = true
				set = append(set, at)
			}
		}
	}
	for _, i := range set {
		w.Nodes[i].Lost = false
	}
	return set
}

// updateAll has the last update of each key be done again, with a value of its own, and reports whether all were.
func (w *run) updateAll(abandon int) bool {
	last := map[string]register.Operation{}
	for _, o := range w.Clients.Recorder.Operations() {
		if r := o.Request; r.Kind != register.Read {
			last[r.Key] = register.Operation{Kind: r.Kind, Key: r.Key, Value: r.Value, Call: r.Call}
		}
	}
	for i, key := range w.keys() {
		op, updated := last[key]
		unique := strconv.Itoa(1_000_000_000 + i)
		switch {
		case !updated:
			continue
		case op.Kind == register.Write:
			op.Value = register.Value(unique)
		case op.Call.Function == register.Append:
			op = schedule.Call(key, register.Append, "<"+unique+">")
		}
		w.Clients.Add(i%len(w.FirstAsked), &clients.Planned{{At: w.Now, Operation: op}}, abandon)
	}
	return w.finish()
}
