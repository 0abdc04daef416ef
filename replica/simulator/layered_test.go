package simulator

import (
	"testing"

	"github.com/georegister/georegister/replica/simulator/directed"
	"github.com/georegister/georegister/replica/simulator/faults"

	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/gus"
	"github.com/georegister/georegister/replica/protocol/layered"
	"github.com/georegister/georegister/replica/protocol/member"
	"github.com/georegister/georegister/replica/protocol/quorum"
	"github.com/georegister/georegister/replica/simulator/schedule"
	"github.com/georegister/georegister/test/mutants"
)

// fragmented is Gus whose larger values are stored as fragments: three restore one, and with three members one does; f
// = 1.
func fragmented() Start {
	inner := layered.Wrap(func(c protocol.Config, j *protocol.Journal, r *quorum.Incarnations) layered.Inner {
		return gus.New(c, j, r)
	})
	return Member(func(c protocol.Config, j *protocol.Journal, r *quorum.Incarnations) member.Inner {
		c.Faults = 1
		c.Fragments = protocol.Fragments{Data: 3, Threshold: 16}
		if c.View.Before().Size() == 3 {
			c.Fragments.Data = 1
		}
		return inner(c, j, r)
	})
}

func fragmentedOptions(kinds ...faults.Kind) schedule.Options {
	return schedule.Options{Faults: kinds, RMWs: schedule.FewRMWs, Members: []int{3, 5, 7}, Large: 64, Losses: 1}
}

// The client of a read of a value that is lost would go on for ever.
func TestFragmentsSurvive(t *testing.T) {
	t.Parallel()
	survives(t, Search{
		Start: fragmented(), Options: fragmentedOptions(sameMembers()...), First: 1, Seeds: seedsFor(t),
	}, append(gus.Paths(), layered.Paths()...))
}

// fragmentedChanges has members exchanged for others, which rebuild what those had, and more added.
func fragmentedChanges() schedule.Options {
	o := fragmentedOptions(faults.Kinds()...)
	o.Members, o.Data, o.Keep = []int{5, 7}, 3, true
	return o
}

// Fragments that go as soon as their value is over have reads begin anew, and nothing else.
func TestHastyFragmentsSurvive(t *testing.T) {
	t.Parallel()
	mutants.Build(t).Run(t, "survive", "layered/go-at-once", func(t *testing.T) {
		for _, options := range []schedule.Options{fragmentedOptions(sameMembers()...), fragmentedChanges()} {
			survives(t, Search{
				Start: fragmented(), Options: options, First: 1, Seeds: seedsFor(t) / 4,
			}, layered.HastyPaths())
		}
	})
}

func TestFragmentsSurviveChanges(t *testing.T) {
	t.Parallel()
	survives(t, Search{Start: fragmented(), Options: fragmentedChanges(), First: 1, Seeds: seedsFor(t) / 4}, layered.Paths())
}

// Members miss fragments most of the time, and make theirs of others' as soon as that is known, while those go; or
// later.
func TestMissedFragmentsSurvive(t *testing.T) {
	t.Parallel()
	program := mutants.Build(t)
	survive := func(t *testing.T, options schedule.Options, seeds int) {
		survives(t, Search{Start: fragmented(), Options: options, First: 1, Seeds: seeds}, layered.RepairPaths())
	}
	program.Run(t, "at once", "layered/store-few-and-go-at-once", func(t *testing.T) {
		survive(t, fragmentedOptions(sameMembers()...), seedsFor(t)/4)
		survive(t, fragmentedChanges(), seedsFor(t)/8)
	})
	program.Run(t, "later", "layered/store-few", func(t *testing.T) { survive(t, fragmentedChanges(), seedsFor(t)/8) })
}

// One of 50,000 such schedules had a write read under its tag, and take another one in the next view.
func TestAWriteThatWaitsForFragmentsKeepsItsTag(t *testing.T) {
	t.Parallel()
	trusting := fragmentedChanges()
	trusting.Faults = faults.Without(plain(trusting.Faults), faults.OldCopy, faults.Rot)
	mustPass(t, drawn(trusting), fragmented(), 41086)
}

func TestMutantsOfFragmentsAreFound(t *testing.T) {
	t.Parallel()
	all := fragmentedOptions(wholeDisks()...)
	wipes := fragmentedOptions(faults.Wipe, faults.Partition, faults.Crash, faults.Loss)
	wipes.Members = []int{5, 7}
	trusting := fragmentedChanges()
	trusting.Faults = faults.Without(plain(trusting.Faults), faults.OldCopy, faults.Rot)
	crashes := fragmentedOptions(faults.Crash, faults.Torn, faults.Partition, faults.Loss, faults.Reorder)
	power := fragmentedOptions(faults.Crash, faults.Torn)
	power.Members = []int{5}
	const gone = 5676 // the seed before the one that shows count-gone
	t.Run("correct", func(t *testing.T) { mustPass(t, drawn(trusting), fragmented(), gone+1) })
	mustFindEach(t, fragmented(), nil, []hunt{
		{"layered/write-at-once", all, 0, 2000},
		{"layered/count-fragments-only", wipes, 0, 4000},
		{"layered/ack-before-persist", power, 0, 700},
		{"layered/reuse-names", crashes, 0, 2000},
		{"layered/share-names", crashes, 0, 200},
		// Found by who waits for such a member; what is lost, TestAVoteWithoutAFragmentLosesAValue shows.
		{"layered/vote-and-wait-in-silence", wipes, 300, 2000},
		{"layered/wait-for-all-and-go-at-once", fragmentedChanges(), 0, 200},
		{"layered/count-gone", trusting, gone, 1},
		{"layered/drop-unused", all, 0, 2000},
	})
}

func TestRareMutantsOfFragmentsAreFound(t *testing.T) {
	t.Parallel()
	program := mutants.Build(t)
	for mutant, draw := range map[string]func(uint64) schedule.Schedule{
		"layered/vote-without-fragments": directed.DisksLostInTurn, "layered/give-up-early": directed.DisksLostInTurn,
		"layered/trust-fragments": directed.FragmentsMisread,
		"layered/count-lost-disk": directed.DisksLostInTurn, "layered/submit-before-persist": directed.MetadataAtFew,
		"gus/resume-without-tag": directed.HeldBackInAChange,
	} { // order is irrelevant: each is a test
		// Clients wait for a value for good.
		program.Run(t, mutant, mutant, func(t *testing.T) { mustFind(t, draw, fragmented(), 0, 4000, nil) })
	}
}
