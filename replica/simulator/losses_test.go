package simulator

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/georegister/georegister/replica/simulator/directed"
	"github.com/georegister/georegister/replica/simulator/faults"

	"github.com/georegister/georegister/replica/protocol/abd"
	"github.com/georegister/georegister/replica/protocol/catalog"
	"github.com/georegister/georegister/replica/protocol/gus"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/simulator/schedule"
	"github.com/georegister/georegister/test/mutants"
)

// promises are short schedules of each protocol that is held to what a manifest promises of lost disks.
func promises() map[string]Search {
	all := map[string]Search{"CURP": {Options: curpOptions()}}
	for _, e := range catalog.All() {
		if e.Partitioned == nil {
			all[e.Row.Name] = Search{Start: Member(e.Factory), Options: optionsFor(e, nil, 3, 5)}
		}
	}
	fragments := fragmentedChanges()
	fragments.Members = []int{5}
	all["Gus"] = Search{Start: Member(gus.Factory), Options: schedule.Options{Members: []int{3, 4, 5}, RMWs: schedule.FewRMWs}}
	all["Gus, relaxed"] = Search{Start: relaxed, Options: schedule.Options{Members: []int{7}, RMWs: schedule.FewRMWs, Losses: 2}}
	all["Gus, fragments"] = Search{Start: fragmented(), Options: fragments}
	all["CURPRaft"] = Search{Start: Member(shortCURPRaft), Options: schedule.Options{Members: []int{3, 5}, RMWs: schedule.ManyRMWs}}
	return all
}

// optionsFor are those of schedules of a protocol, with such faults and numbers of members.
func optionsFor(e catalog.Entry, kinds []faults.Kind, members ...int) schedule.Options {
	o := schedule.Options{RMWs: schedule.ManyRMWs}
	switch {
	case e.Regular():
		o = sessions(nil)
	case e.Row.CheckOperation(register.RMW) != nil:
		o.RMWs = schedule.FewRMWs
	case e.Row.CheckOperation(register.Write) != nil:
		o = schedule.Options{Idempotent: true}
	}
	o.Faults, o.Members = kinds, members
	return o
}

func TestWhatIsAcknowledgedIsOnDisksThatAreLeft(t *testing.T) {
	t.Parallel()
	for name, s := range promises() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, kinds := range [][]faults.Kind{sameMembers(), faults.Kinds()} {
				if s.Options.Partitioned != nil {
					kinds = append(slices.Clone(kinds), faults.Lose, faults.Move, faults.Split)
				}
				s.Options.Faults, s.Options.Operations = kinds, 40
				s.First, s.Seeds, s.Lose = 1, 20, 1
				for losses := 0; losses < seedsFor(t)/8 && !t.Failed(); s.First += uint64(s.Seeds) {
					r := s.Run(t.Context())
					for _, f := range r.Failures {
						t.Errorf("%v\n%s", f, Explain(Shrink(t.Context(), f)))
					}
					if losses += r.Losses; r.Losses == 0 {
						t.Fatalf("no disk was lost in %d schedules", s.Seeds)
					}
				}
			}
		})
	}
}

// A schedule that is made shorter may have fewer nodes than the one whose disks are lost, or have lost others by
// then. Nothing was promised of such a loss, so it is none that goes wrong.
func TestDisksThatMayNotBeLostAreKept(t *testing.T) {
	t.Parallel()
	s, _ := directed.Triangle(1)
	directed.Plan(&s, 0, 10*time.Millisecond, register.Operation{Kind: register.Write, Value: register.Value("old")})
	directed.Plan(&s, 1, 200*time.Millisecond, register.Operation{Kind: register.Read})
	s.Settle = time.Second
	for _, members := range [][]int{{3}, {7}, {0, 1}, {1, 5}, {2, 2}} {
		s.Lost = &schedule.DiskLoss{Answer: 1, Members: members}
		if f := Run(s, Member(abd.Factory), nil).Failure; f != nil {
			t.Errorf("nodes %v of three: %v", members, f)
		}
	}
}

// A loss of who joins is made shorter too, though nobody joins in what is left of the schedule.
func TestShrinkLossesOfNewcomers(t *testing.T) {
	t.Parallel()
	mutants.Build(t).Run(t, "it", "abd/ack-before-persist", shrinkLossOfNewcomer)
}

func shrinkLossOfNewcomer(t *testing.T) {
	start := Member(abd.Factory)
	options := schedule.Options{Members: []int{3}, RMWs: schedule.FewRMWs, Operations: 40, Faults: []faults.Kind{faults.Change, faults.Loss}}
	for seed := range uint64(200) {
		s := schedule.Draw(seed+1, options)
		for _, lossy := range promised(t.Context(), s, start, 3) {
			if slices.Max(lossy.Lost.Members) < 3 {
				continue
			}
			if f := Run(lossy, start, nil).Failure; f != nil {
				small := Shrink(t.Context(), f)
				if again := Run(small.Schedule, start, nil).Failure; again == nil || again.Class != f.Class {
					t.Errorf("the short schedule does not fail again: %v", again)
				}
				return
			}
		}
	}
	t.Error("no loss of a newcomer goes wrong")
}

// What is on too few disks is found, though members that go on have it in memory.
func TestTooFewDisksAreFound(t *testing.T) {
	t.Parallel()
	found := mutants.Build(t)
	for _, mutant := range []string{"abd/ack-before-persist", "abd/complete-before-persist", "abd/skip-write-back"} {
		found.Run(t, mutant, mutant, func(t *testing.T) {
			s := Search{Start: Member(abd.Factory), Options: schedule.Options{Members: []int{3, 5}, RMWs: schedule.FewRMWs, Operations: 40, Faults: []faults.Kind{faults.Loss}}, First: 1, Seeds: 300, Lose: 3}
			r := s.Run(t.Context())
			if len(r.Failures) == 0 {
				t.Fatalf("not found with %d losses", r.Losses)
			}
			t.Logf("%v", r.Failures[0])
		})
	}
}

// A schedule that was made so short that nobody asks for anything is right after an outage too, when members that have
// just come back do not know yet whether their disks are older copies.
func TestAnOutageWithoutOperationsIsRight(t *testing.T) {
	t.Parallel()
	asked := 0
	for seed := range uint64(40) {
		s := schedule.Draw(seed, schedule.Options{
			Faults: []faults.Kind{faults.Outage, faults.OldCopy}, RMWs: schedule.FewRMWs,
		})
		if s.Outage == nil {
			continue
		}
		for i := range s.Clients {
			s.Clients[i].Operations, s.Clients[i].Asides = nil, nil
		}
		s.Faults = nil
		asked++
		if o := Run(s, Member(abd.Factory), nil); o.Failure != nil {
			t.Errorf("seed %d: %v", seed, o.Failure)
		}
	}
	if asked == 0 {
		t.Error("no schedule has an outage")
	}
}

// More answers than a schedule has are all of its answers.
func TestDisksAreLostAtAllAnswersAtMost(t *testing.T) {
	t.Parallel()
	s := schedule.Draw(1, schedule.Options{Members: []int{3}})
	for i := range s.Clients {
		s.Clients[i].Operations = s.Clients[i].Operations[:min(2, len(s.Clients[i].Operations))]
	}
	start := Member(abd.Factory)
	answered := until(t.Context(), s, start, 0).Clients.Answered
	all := promised(t.Context(), s, start, answered)
	if more := promised(t.Context(), s, start, math.MaxInt); len(all) == 0 || len(more) != len(all) {
		t.Errorf("%d losses at %d answers, and %d at as many as can be", len(all), answered, len(more))
	}
}
