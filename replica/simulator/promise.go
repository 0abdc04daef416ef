package simulator

import (
	"context"
	"time"

	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/simulator/check"
	"github.com/georegister/georegister/replica/simulator/schedule"
)

// A manifest promises that so many disks can be lost, for good, without losing what was acknowledged. Schedules are
// held to that at some of their answers: each set of disks that may be lost at that moment is lost, in a run of its
// own, all other faults end, and what clients saw until then must still be so.

// promised are the schedules that lose disks at so many answers, which are spread over the schedule: at each of them
// every set of disks that may be lost then.
func promised(ctx context.Context, s schedule.Schedule, start Start, answers int) (all []schedule.Schedule) {
	whole := until(ctx, s, start, 0)
	last := 0
	for i := range answers {
		answer := (whole.answered*(2*i+1) + answers) / (2 * answers)
		if answer == last {
			continue // there are fewer
		}
		last = answer
		for _, set := range until(ctx, s, start, answer).losable() {
			lossy := s
			lossy.Lost = &schedule.DiskLoss{Answer: answer, Members: set, PowerCut: answer%2 == 0}
			all = append(all, lossy)
		}
	}
	return all
}

// until runs the schedule up to an answer, or to the end of its faults if that is 0.
func until(ctx context.Context, s schedule.Schedule, start Start, answer int) *world {
	w := scheduled(ctx, s, start, nil, false)
	w.Run(s.Settle, func() bool { return answer > 0 && w.answered >= answer })
	return w
}

// losable are the sets of members, and of witnesses with a disk of their own, by the positions of their nodes, whose
// disks may be lost beside those that have not come back: those to which no other may be added.
func (w *world) losable() (sets [][]int) {
	var lost []int
	var add func(from int)
	add = func(from int) {
		largest := true
		for i, nd := range w.nodes {
			if !w.losableNow(nd) {
				continue
			}
			largest = false
			if i < from {
				continue
			}
			nd.lost = true
			lost = append(lost, i)
			add(i + 1)
			lost = lost[:len(lost)-1]
			nd.lost = false
		}
		if largest && len(lost) > 0 {
			sets = append(sets, append([]int(nil), lost...))
		}
	}
	add(0)
	return sets
}

// losableNow reports whether the disk of a member, or of a witness that shares none, may be lost.
func (w *world) losableNow(nd *node) bool {
	switch {
	case !nd.born || nd.lost || nd.gone:
		return false
	case w.env.Partitioned == nil:
		return nd.acts && nd.witness == nil && w.tolerates(nd)
	case nd.witness != nil:
		_, serves := w.manager.views[w.manager.record].Witness(nd.config.Self)
		return serves && nd.witness.beside == 0 && w.expendable(nd)
	}
	return nd.acts && w.manager.views[w.manager.record].Index(nd.config.Self) >= 0 && w.expendable(nd)
}

// mayLose reports whether all those disks may be lost at this moment. In a schedule that was made shorter it may be
// otherwise than in the one that they were chosen for: who was to join is not there, or other disks are lost
// already.
func (w *world) mayLose(l *schedule.DiskLoss) bool {
	var lost []*node
	defer func() {
		for _, nd := range lost {
			nd.lost = false
		}
	}()
	for _, i := range l.Members {
		if i >= len(w.nodes) || !w.losableNow(w.nodes[i]) {
			return false
		}
		w.nodes[i].lost = true
		lost = append(lost, w.nodes[i])
	}
	return true
}

// liveWithout runs the world up to the loss of members, and has everything read at every site once what is under way is
// over.
func (w *world) liveWithout(l *schedule.DiskLoss, settle time.Duration) (check.Class, string) {
	w.Run(settle, func() bool { return w.answered >= l.Answer })
	if w.Err != nil {
		return check.Broken, w.Err.Error()
	}
	if !w.mayLose(l) {
		return "", ""
	}
	w.lose(l)
	bound := 120 * w.env.Retry
	if !w.finish(bound) {
		return w.stuck("after the loss ")
	}
	var reads []schedule.Planned
	for _, key := range w.keys() {
		reads = append(reads, schedule.Planned{At: w.Now, Operation: register.Operation{Kind: register.Read, Key: key}})
	}
	for site := range w.serving {
		w.addClient(site, &list{reads}, 0)
	}
	if !w.finish(bound) {
		return w.stuck("at the end ")
	}
	return "", ""
}

// lose loses members for good. From now on no client begins anything, and there is no other fault.
func (w *world) lose(l *schedule.DiskLoss) {
	for _, i := range l.Members {
		w.nodes[i].giveUp()
		w.trace.Note(i, "is lost for good")
	}
	for _, nd := range w.nodes {
		if l.PowerCut && !nd.down {
			nd.crash(0, 500)
		}
	}
	for _, c := range w.clients {
		c.source = &list{}
	}
	w.faultless = true
	w.settle()
}
