package simulator

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/georegister/georegister/replica/register"
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
		// layered/wait-in-silence: 50,000 of these schedules have no sign of it, and
		// TestWhoWaitsForAFragmentSaysThatItHasNone does.
		{"layered/drop-unused", all, 0, 2000},
	})
}

// drawLostInTurn makes a schedule in which one member is cut off while large values are written, and has no fragments of
// them; then disks are lost one after the other, each as soon as the one before is no loss any more.
func drawLostInTurn(seed uint64) schedule.Schedule {
	const ms = time.Millisecond
	s, draw := pentagon(seed)
	s.Environment.Losses, s.Environment.Data = 1, 3
	keys, losses := 1+draw.Below(4), 300*ms
	op := func(kind register.Kind, value string) register.Operation {
		return register.Operation{Kind: kind, Key: schedule.MixedPrefix + strconv.Itoa(draw.Below(keys)), Value: register.Value(value)}
	}
	end := losses + draw.Between(100*ms, 500*ms)
	for home := range 5 {
		writes, reads := schedule.Plan{Home: home}, schedule.Plan{Home: home}
		for at := draw.Between(0, 200*ms); at < losses; at += draw.Between(20*ms, 200*ms) {
			value := fmt.Sprintf("%064d", 100*home+len(writes.Operations))
			writes.Operations = append(writes.Operations, schedule.Planned{At: at, Operation: op(register.Write, value)})
		}
		for at := losses + draw.Between(0, 200*ms); at < end+200*ms; at += draw.Between(20*ms, 100*ms) {
			reads.Operations = append(reads.Operations, schedule.Planned{At: at, Operation: op(register.Read, "")})
		}
		s.Clients = append(s.Clients, writes, reads)
	}
	away := losses - draw.Between(50*ms, 300*ms)
	s.Faults = []faults.Fault{{
		Kind: faults.Partition, Everywhere: true, At: away, For: losses - away + draw.Between(0, 30*ms), Side: 1 << draw.Below(5),
	}}
	if draw.Chance(500) {
		s.Faults = append(s.Faults, faults.Fault{
			Kind: faults.Reorder, Everywhere: true, At: losses, For: end - losses, Rate: 300, Size: draw.Between(20*ms, 200*ms),
		})
	}
	for at := losses + 30*ms; at < end; at += draw.Between(ms, 10*ms) {
		s.Faults = append(s.Faults, faults.Fault{Kind: faults.Wipe, Node: draw.Below(5), At: at, For: draw.Between(ms, 5*ms)})
	}
	s.Settle = end + 300*ms
	return s
}

// drawUnnoted makes a schedule in which the metadata of large values has come to few when the writer, whose disk is slow,
// loses its power, and nobody reads for as long as it takes until fragments go that nothing refers to.
func drawUnnoted(seed uint64) schedule.Schedule {
	const ms = time.Millisecond
	s, draw := pentagon(seed)
	s.Environment.Losses, s.Environment.Data = 1, 3
	s.Environment.Retry, s.Environment.Suspect = 60*ms, 120*ms
	s.Environment.Disks[0] = schedule.Window{Low: 30 * ms, High: 60 * ms}
	begin, rest := 100*ms, 1000*ms
	few := begin + draw.Between(10*ms, 28*ms) // fragments are there, and the metadata leaves
	s.Faults = []faults.Fault{
		{Kind: faults.Loss, Node: 0, At: few, For: draw.Between(5*ms, 20*ms), Rate: 300 + draw.Below(600)},
		{Kind: faults.Crash, Node: 0, At: few + draw.Between(2*ms, 50*ms), For: draw.Between(ms, 50*ms)},
	}
	for i := range 4 {
		key, value := schedule.MixedPrefix+strconv.Itoa(i), register.Value(fmt.Sprintf("%064d", i))
		once := func(home int, at time.Duration, op register.Operation) {
			s.Clients = append(s.Clients, schedule.Plan{Home: home, Operations: []schedule.Planned{{At: at, Operation: op}}})
		}
		once(0, begin+draw.Between(0, 5*ms), register.Operation{Kind: register.Write, Key: key, Value: value})
		for home := range 5 {
			once(home, begin+rest+draw.Between(0, 50*ms), register.Operation{Kind: register.Read, Key: key})
		}
	}
	s.Settle = begin + rest + 100*ms
	return s
}

func TestRareMutantsOfFragmentsAreFound(t *testing.T) {
	t.Parallel()
	program := mutants.Build(t)
	for name, rare := range map[string]struct {
		draw    func(uint64) schedule.Schedule
		mutants []string
	}{
		"disks lost in turn":     {drawLostInTurn, []string{"layered/vote-without-fragments", "layered/give-up-early", "layered/count-lost-disk"}},
		"metadata that few have": {drawUnnoted, []string{"layered/submit-before-persist"}},
	} { // order is irrelevant: each is a test
		t.Run("without, "+name, func(t *testing.T) { mustNotFind(t, rare.draw, fragmented(), 500) })
		for _, mutant := range rare.mutants { // clients wait for a value for good
			program.Run(t, mutant, mutant, func(t *testing.T) { mustFind(t, rare.draw, fragmented(), 0, 4000, nil) })
		}
	}
}
