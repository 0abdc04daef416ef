package simulator

import (
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
