package simulator

import (
	"slices"
	"testing"

	"github.com/georegister/georegister/replica/simulator/check"
	"github.com/georegister/georegister/replica/simulator/cluster"
	"github.com/georegister/georegister/replica/simulator/directed"
	"github.com/georegister/georegister/replica/simulator/faults"

	"github.com/georegister/georegister/replica/history"
	"github.com/georegister/georegister/replica/protocol/gryff"
	"github.com/georegister/georegister/replica/simulator/schedule"
	"github.com/georegister/georegister/test/mutants"
)

// sessions are schedules of Gryff-RSC. With three members all reads of Gryff take one round trip, and no session
// depends on anything.
func sessions(faults []faults.Kind) schedule.Options {
	return schedule.Options{Faults: faults, RMWs: schedule.ManyRMWs, Members: []int{3, 5, 5, 5}, Regular: true}
}

func TestGryffRSCSurvives(t *testing.T) {
	t.Parallel()
	// Who starts again asks who has executed what it had voted for, and so seldom hears of a commit in a recovery. The
	// schedules of EPaxos show what comes of one.
	paths := slices.DeleteFunc(append(gryff.PathsRSC(), sessionPaths()...), func(path string) bool {
		return path == "recover.committed"
	})
	survivesEach(t, Search{
		Start: Member(gryff.FactoryRSC), First: 1, Seeds: seedsFor(t), Options: sessions(sameMembers()),
	}, []int{3, 5}, paths)
}

func TestGryffRSCSurvivesChanges(t *testing.T) {
	t.Parallel()
	options := sessions(faults.Kinds())
	options.Members = nil
	survives(t, Search{
		Start: Member(gryff.FactoryRSC), First: 1, Seeds: seedsFor(t) / 2, Options: options,
	}, append(gryff.ChangePaths(), sessionPaths()...))
}

// What waits for other shards has these schedules regular sequential, too.
func TestGryffRSCFencesShards(t *testing.T) {
	t.Parallel()
	first := cluster.ShardOf(directed.HalfKeys[0], 2)
	if first == cluster.ShardOf(directed.HalfKeys[1], 2) || first != cluster.ShardOf(directed.JoinedKey, 2) {
		t.Fatal("the keys are not in the shards that they are to be in")
	}
	mustNotFind(t, directed.HalfWritesInShards, Member(gryff.FactoryRSC), 500)
	mustNotFind(t, directed.HalfWritesJoined, Member(gryff.FactoryRSC), 500)
}

func TestGryffRSCSurvivesWritesOverwritten(t *testing.T) {
	t.Parallel()
	mustNotFind(t, directed.HalfWritesOverwritten, Member(gryff.FactoryRSC), 500)
}

// The model is weaker than linearizability, and schedules come to that: else the others would say nothing of sessions.
func TestGryffRSCIsNotLinearizable(t *testing.T) {
	t.Parallel()
	const seeds = 300
	weaker := 0
	for seed := range uint64(seeds) {
		o := Run(directed.HalfWrites(seed), Member(gryff.FactoryRSC), nil)
		if o.Failure != nil {
			t.Fatalf("%v\n%s", o.Failure, Explain(Shrink(t.Context(), o.Failure)))
		}
		if class, _ := check.ClassOf(history.Check(t.Context(), check.WithoutUnseen(o.History), history.Options{Timeout: checkTimeout}), check.Violation); class == check.Violation {
			weaker++
		}
	}
	t.Logf("%d of %d histories are regular sequential, and not linearizable", weaker, seeds)
	if weaker < seeds/20 {
		t.Error("too few")
	}
}

// Those that only a message under way shows are found near scripts instead (package gryff).
func TestMutantsOfGryffRSCAreFound(t *testing.T) {
	t.Parallel()
	program := mutants.Build(t)
	for _, mutant := range []string{
		"gryff/drop-dependency", "gryff/rmw-without-write-back", "gryff/held-at-once", "gryff/older-than-all",
	} {
		program.Run(t, mutant, mutant, func(t *testing.T) {
			mustFind(t, directed.HalfWrites, Member(gryff.FactoryRSC), 0, 3000, found(check.Violation))
		})
	}
}

// What a read tells without leaving a dependency, and what an operation comes after that has ended, is on the disks of
// a quorum.
func TestMutantsOfWhatAQuorumHoldsAreFound(t *testing.T) {
	t.Parallel()
	program := mutants.Build(t)
	random := func(seed uint64) schedule.Schedule { return schedule.Draw(seed, sessions(sameMembers())) }
	for mutant, draw := range map[string]func(uint64) schedule.Schedule{
		"gryff/older-for-all": random, "gryff/told-of-any-version": random,
		"gryff/told-by-write": directed.HalfWritesOverwritten, "register/own-shard-unfenced": directed.HalfWritesJoined,
	} { // order is irrelevant: each is a test
		program.Run(t, mutant, mutant, func(t *testing.T) {
			mustFind(t, draw, Member(gryff.FactoryRSC), 0, 3000, found(check.Breach))
		})
	}
}

func TestMutantsOfSessionsAreFound(t *testing.T) {
	t.Parallel()
	program := mutants.Build(t)
	for mutant, draw := range map[string]func(uint64) schedule.Schedule{
		"register/drop-at-failure": directed.HalfWrites, "clients/drop-at-failover": directed.HalfWrites, "clients/drop-at-move": directed.HalfWrites,
		"clients/tell-bare": directed.HalfWrites, "clients/fence-unawaited": directed.HalfWrites, "register/unfenced-shards": directed.HalfWritesInShards,
	} { // order is irrelevant: each is a test
		program.Run(t, mutant, mutant, func(t *testing.T) {
			mustFind(t, draw, Member(gryff.FactoryRSC), 0, 3000, found(check.Violation))
		})
	}
}

// sessionPaths are what happens in schedules with sessions.
func sessionPaths() []string {
	return []string{
		"session.depends", "session.move", "session.die", "session.tell", "session.fence", "session.fence-of-something",
		"session.barrier",
	}
}
