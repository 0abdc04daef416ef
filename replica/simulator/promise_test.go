package simulator

import (
	"slices"
	"testing"
	"time"

	"github.com/georegister/georegister/replica/protocol/abd"
	"github.com/georegister/georegister/replica/protocol/curp"
	"github.com/georegister/georegister/replica/protocol/curpraft"
	"github.com/georegister/georegister/replica/protocol/epaxos"
	"github.com/georegister/georegister/replica/protocol/gryff"
	"github.com/georegister/georegister/replica/protocol/gus"
	"github.com/georegister/georegister/replica/protocol/layered"
	"github.com/georegister/georegister/replica/protocol/raft"
	"github.com/georegister/georegister/replica/protocol/rmwpaxos"
	"github.com/georegister/georegister/replica/register"
)

// promises are short schedules of each protocol that is held to what a manifest promises of lost disks.
func promises() map[string]Search {
	small := Options{Members: []int{3, 5}}
	with := func(o Options, change func(*Options)) Options {
		change(&o)
		return o
	}
	rmws := with(small, func(o *Options) { o.RMWs = ManyRMWs })
	return map[string]Search{
		"ABD":                {Start: Member(abd.Factory), Options: with(small, func(o *Options) { o.RMWs = FewRMWs })},
		"Gryff":              {Start: Member(gryff.Factory), Options: rmws},
		"GryffRSC":           {Start: Member(gryff.FactoryRSC), Options: sessions(nil)},
		"Gus":                {Start: Member(gus.Factory), Options: Options{Members: []int{3, 4, 5}, RMWs: FewRMWs}},
		"Gus, relaxed":       {Start: relaxed(gus.Mistakes{}), Options: Options{Members: []int{7}, RMWs: FewRMWs, Losses: 2}},
		"Gus, fragments":     {Start: fragmented(layered.Mistakes{Endless: true}), Options: with(fragmentedChanges(), func(o *Options) { o.Members = []int{5} })},
		"RMWPaxos":           {Start: Member(rmwpaxos.Factory), Options: rmws},
		"RMWPaxos, repeated": {Start: Member(rmwpaxos.AtLeastOnce), Options: with(small, func(o *Options) { o.Idempotent = true })},
		"EPaxos":             {Start: Member(epaxos.Factory), Options: rmws},
		"Raft":               {Start: Member(raft.Factory), Options: rmws},
		"CURP":               {Options: curpOptions(curp.Mistakes{})},
		"CURPRaft":           {Start: curpraftWith(curpraft.Mistakes{}), Options: rmws},
	}
}

func TestWhatIsAcknowledgedIsOnDisksThatAreLeft(t *testing.T) {
	t.Parallel()
	for name, s := range promises() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, faults := range [][]FaultKind{sameMembers(), FaultKinds()} {
				if s.Options.CURP != nil {
					faults = append(slices.Clone(faults), Lose, Move, Split)
				}
				s.Options.Faults, s.Options.Operations = faults, 40
				s.First, s.Seeds, s.Lose = 1, 20, 1
				for losses := 0; losses < seedsFor(t)/2 && !t.Failed(); s.First += uint64(s.Seeds) {
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
	s, _ := triangle(1)
	s.plan(0, 10*time.Millisecond, register.Operation{Kind: register.Write, Value: register.Value("old")})
	s.plan(1, 200*time.Millisecond, register.Operation{Kind: register.Read})
	s.Settle = time.Second
	for _, members := range [][]int{{3}, {7}, {0, 1}, {1, 5}, {2, 2}} {
		s.Lost = &DiskLoss{Answer: 1, Members: members}
		if f := s.Run(Member(abd.Factory), nil).Failure; f != nil {
			t.Errorf("nodes %v of three: %v", members, f)
		}
	}
}

// A loss of who joins is made shorter too, though nobody joins in what is left of the schedule.
func TestShrinkLossesOfNewcomers(t *testing.T) {
	t.Parallel()
	start := Member(abd.FactoryWith(abd.Mistakes{AckBeforePersist: true}))
	options := Options{Members: []int{3}, RMWs: FewRMWs, Operations: 40, Faults: []FaultKind{Change, Loss}}
	for seed := range uint64(200) {
		s := Draw(seed+1, options)
		for _, lossy := range s.promised(t.Context(), start, 3) {
			if slices.Max(lossy.Lost.Members) < 3 {
				continue
			}
			if f := lossy.Run(start, nil).Failure; f != nil {
				small := Shrink(t.Context(), f)
				if again := small.Schedule.Run(start, nil).Failure; again == nil || again.Class != f.Class {
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
	for name, start := range map[string]Start{
		"AckBeforePersist":      Member(abd.FactoryWith(abd.Mistakes{AckBeforePersist: true})),
		"CompleteBeforePersist": Member(abd.FactoryWith(abd.Mistakes{CompleteBeforePersist: true})),
		"SkipWriteBack":         Member(abd.FactoryWith(abd.Mistakes{SkipWriteBack: true})),
	} {
		t.Run(name, func(t *testing.T) {
			s := Search{Start: start, Options: Options{Members: []int{3, 5}, RMWs: FewRMWs, Operations: 40, Faults: []FaultKind{Loss}}, First: 1, Seeds: 300, Lose: 3}
			r := s.Run(t.Context())
			if len(r.Failures) == 0 {
				t.Fatalf("not found with %d losses", r.Losses)
			}
			t.Logf("%v", r.Failures[0])
		})
	}
}
