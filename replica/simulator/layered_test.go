package simulator

import (
	"testing"

	"github.com/georegister/georegister/replica/simulator/faults"

	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/gus"
	"github.com/georegister/georegister/replica/protocol/layered"
	"github.com/georegister/georegister/replica/protocol/member"
	"github.com/georegister/georegister/replica/protocol/quorum"
	"github.com/georegister/georegister/replica/simulator/schedule"
)

// fragmented is Gus whose larger values are stored as fragments: three restore one, and with three members one does; f
// = 1.
func fragmented(m layered.Mistakes) Start {
	inner := layered.WrapWith(func(c protocol.Config, j *protocol.Journal, r *quorum.Incarnations) layered.Inner {
		return gus.New(c, j, r, gus.Mistakes{})
	}, m)
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

// A read of a value that is lost would not end.
func TestFragmentsSurvive(t *testing.T) {
	t.Parallel()
	survives(t, Search{
		Start: fragmented(layered.Mistakes{Endless: true}), Options: fragmentedOptions(sameMembers()...), First: 1, Seeds: seedsFor(t),
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
	for _, options := range []schedule.Options{fragmentedOptions(sameMembers()...), fragmentedChanges()} {
		survives(t, Search{
			Start: fragmented(layered.Mistakes{NoGrace: true, Endless: true}), Options: options, First: 1, Seeds: seedsFor(t) / 4,
		}, layered.HastyPaths())
	}
}

func TestFragmentsSurviveChanges(t *testing.T) {
	t.Parallel()
	survives(t, Search{Start: fragmented(layered.Mistakes{Endless: true}), Options: fragmentedChanges(), First: 1, Seeds: seedsFor(t) / 4}, layered.Paths())
}

// Members miss fragments most of the time, and make theirs of others' as soon as that is known, while those go; or
// later.
func TestMissedFragmentsSurvive(t *testing.T) {
	t.Parallel()
	hasty := layered.Mistakes{Thrifty: true, NoGrace: true, Endless: true}
	survives(t, Search{Start: fragmented(hasty), Options: fragmentedOptions(sameMembers()...), First: 1, Seeds: seedsFor(t) / 4}, layered.RepairPaths())
	survives(t, Search{Start: fragmented(hasty), Options: fragmentedChanges(), First: 1, Seeds: seedsFor(t) / 8}, layered.RepairPaths())
	survives(t, Search{
		Start: fragmented(layered.Mistakes{Thrifty: true}), Options: fragmentedChanges(), First: 1, Seeds: seedsFor(t) / 8,
	}, layered.RepairPaths())
}

// One of 50,000 such schedules had a write read under its tag, and take another one in the next view.
func TestAWriteThatWaitsForFragmentsKeepsItsTag(t *testing.T) {
	t.Parallel()
	trusting := fragmentedChanges()
	trusting.Faults = faults.Without(trusting.Faults, faults.OldCopy, faults.Rot)
	mustPass(t, drawn(trusting), fragmented(layered.Mistakes{}), 41086)
}

func TestMistakesOfFragmentsAreFound(t *testing.T) {
	t.Parallel()
	all := fragmentedOptions(wholeDisks()...)
	wipes := fragmentedOptions(faults.Wipe, faults.Partition, faults.Crash, faults.Loss)
	wipes.Members = []int{5, 7}
	trusting := fragmentedChanges()
	trusting.Faults = faults.Without(trusting.Faults, faults.OldCopy, faults.Rot)
	crashes := fragmentedOptions(faults.Crash, faults.Torn, faults.Partition, faults.Loss, faults.Reorder)
	power := fragmentedOptions(faults.Crash, faults.Torn)
	power.Members = []int{5}
	for _, c := range []struct {
		name    string
		wrong   layered.Mistakes
		options schedule.Options
		after   uint64
		seeds   int
	}{
		{"WriteAtOnce", layered.Mistakes{WriteAtOnce: true}, all, 0, 2000},
		{"CountFragmentsOnly", layered.Mistakes{CountFragmentsOnly: true}, wipes, 0, 4000},
		{"AckBeforePersist", layered.Mistakes{AckBeforePersist: true}, power, 0, 700},
		{"ReuseNames", layered.Mistakes{ReuseNames: true, TrustFragments: true}, crashes, 0, 2000},
		// Found by who waits for such a member; what is lost, TestAVoteWithoutAFragmentLosesAValue shows.
		{"VoteWithoutFragments", layered.Mistakes{VoteWithoutFragments: true, WaitInSilence: true}, wipes, 300, 2000},
		{"WaitForAll", layered.Mistakes{WaitForAll: true, NoGrace: true, Endless: true}, fragmentedChanges(), 0, 200},
		{"CountGone", layered.Mistakes{CountGone: true}, trusting, 5676, 1},
		// WaitInSilence alone: 50,000 of these schedules have no sign of it, and TestWhoWaitsForAFragmentSaysThatItHasNone does.
		{"DropUnused", layered.Mistakes{DropUnused: true, Endless: true}, all, 0, 2000},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.seeds == 1 {
				mustPass(t, drawn(c.options), fragmented(layered.Mistakes{}), c.after+1)
			}
			mustFind(t, drawn(c.options), fragmented(c.wrong), c.after, c.seeds, nil)
		})
	}
}
