package simulator

import (
	"testing"

	"github.com/georegister/georegister/replica/protocol/catalog"
	"github.com/georegister/georegister/replica/protocol/definition"
	"github.com/georegister/georegister/replica/protocol/rmwpaxos"
	"github.com/georegister/georegister/replica/simulator/directed"
	"github.com/georegister/georegister/replica/simulator/faults"
	"github.com/georegister/georegister/replica/simulator/schedule"
)

// The directed schedules that tests have.
var (
	pentagon, triangle, plan = directed.Pentagon, directed.Triangle, directed.Plan

	drawBurst, drawTakenBack, drawAlone, drawEmptied = directed.LostMasters, directed.MastersBack, directed.NoBackups, directed.EmptyDisks
	drawCopied, drawLostQuorum, drawSplit            = directed.CopiesInPages, directed.LostQuorums, directed.Splits
	drawLeases, drawLeft, drawKept                   = directed.LeasesCutOff, directed.ReplacedUnderLeases, directed.BackupsOnBothSides
	drawSuspended, drawBackupReads                   = directed.LeasesHeardLate, directed.BackupReads
	drawAlarms, drawUntold                           = directed.FalseAlarms, directed.ViewsToldToFew
	drawAskedAgain, drawThawed                       = directed.WitnessesAskedTwice, directed.WitnessesRestarted
	drawForgetful, drawBack, drawMasterBack          = directed.SessionsForgotten, directed.SessionsBack, directed.SessionsBackAtMasters
	drawHalf, drawHalves, halfKeys                   = directed.HalfWrites, directed.HalfWritesInShards, directed.HalfKeys
	drawHeard, drawUnsent                            = directed.LeadersHeardByOne, directed.LeadersHardlyHeard
	drawGoneHolder, drawFence, drawReborn            = directed.HoldersGone, directed.LostAcknowledgements, directed.WritersBack
	drawPreempted, drawOutvoted                      = directed.TagsPreempted, directed.TagsOutvoted
	drawForgottenPromise, drawCopies                 = directed.PromisesForgotten, directed.VotesCopied
	drawOldVotes, drawContended                      = directed.VotesOfFormers, directed.OneKeyContended
	drawDuel, drawInterferingDuel, drawDuelOfFive    = directed.Duels, directed.InterferingDuels, directed.DuelsOfFive
	drawDeadVote, drawReused, drawNewDisk            = directed.VotesOfLostDisks, directed.NumbersReused, directed.CommitsLost
	drawDeadPromise                                  = directed.PromisesOfLostDisks
	drawExchanged, drawLostInTurn, drawUnnoted       = directed.AllExchanged, directed.DisksLostInTurn, directed.MetadataAtFew
	drawTwice, drawLeftBehind, drawCutOff            = directed.ChangesInTurn, directed.LeftBehind, directed.ChangesUnheard
	drawLostTwice                                    = directed.DisksLostTwice
)

func drawCopyBurst(kind faults.Kind) func(seed uint64) schedule.Schedule {
	return func(seed uint64) schedule.Schedule { return directed.OldWitnesses(seed, kind) }
}

func drawGoneBack(kind faults.Kind) func(seed uint64) schedule.Schedule {
	return func(seed uint64) schedule.Schedule { return directed.OldCopies(seed, kind) }
}

func drawLeaderLoss(seed uint64) schedule.Schedule {
	return directed.LostLeaders(seed, schedule.Options{RMWs: 500})
}

// soaked is how a soak runs a protocol, and what its schedules are like.
func soaked(t *testing.T, variant definition.Variant) (Start, schedule.Options) {
	t.Helper()
	entry, _, err := catalog.FindVariant(variant.Name)
	if err != nil {
		t.Fatal(err)
	}
	start, options := Member(entry.Factory), schedule.Options{RMWs: schedule.ManyRMWs}
	switch variant.Name {
	case "abd", "gus":
		options.RMWs = schedule.FewRMWs
	case "gus-relaxed":
		start, options.RMWs, options.Members = relaxed, schedule.FewRMWs, []int{7, 9}
	case "gus-fragments":
		start, options = fragmented(), fragmentedChanges()
	case "gryffrsc":
		options.Regular = true
	case "rmwpaxosatleastonce":
		start, options.Idempotent = Member(rmwpaxos.AtLeastOnce), true
	case "curp":
		start, options = nil, curpOptions()
		options.Stale = schedule.SomeStale
	}
	return start, options
}

// Each kind of directed schedules passes with each of its protocols, as a soak draws it. Those of masters are few here,
// since they take longer, and some have tests of their own.
func TestDirectedSchedulesSurvive(t *testing.T) {
	t.Parallel()
	for _, v := range catalog.Variants() {
		start, options := soaked(t, v)
		options.Faults = []faults.Kind{faults.Directed, faults.Limits, faults.InFlight}
		seeds := max(1, seedsFor(t)/40)
		if options.Partitioned != nil {
			seeds = max(1, seedsFor(t)/160)
		}
		for _, k := range directed.Of(v.Name, options.Partitioned != nil, options.Members) {
			options.Directed = directed.Draws([]directed.Kind{k})
			draw := drawn(options)
			t.Run(v.Name+", "+k.Name, func(t *testing.T) { mustNotFind(t, draw, start, seeds) })
		}
	}
}
