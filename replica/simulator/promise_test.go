package simulator

import (
	"slices"
	"testing"

	"github.com/georegister/georegister/replica/protocol/abd"
	"github.com/georegister/georegister/replica/protocol/curp"
	"github.com/georegister/georegister/replica/protocol/curpraft"
	"github.com/georegister/georegister/replica/protocol/epaxos"
	"github.com/georegister/georegister/replica/protocol/gryff"
	"github.com/georegister/georegister/replica/protocol/gus"
	"github.com/georegister/georegister/replica/protocol/layered"
	"github.com/georegister/georegister/replica/protocol/raft"
	"github.com/georegister/georegister/replica/protocol/rmwpaxos"
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
