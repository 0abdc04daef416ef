package simulator

import (
	"testing"
	"time"

	"github.com/georegister/georegister/replica/simulator/check"
	"github.com/georegister/georegister/replica/simulator/cluster"
	"github.com/georegister/georegister/replica/simulator/faults"

	"github.com/georegister/georegister/replica/history"
	"github.com/georegister/georegister/replica/protocol/gryff"
	"github.com/georegister/georegister/replica/register"
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
	survivesEach(t, Search{
		Start: Member(gryff.FactoryRSC), First: 1, Seeds: seedsFor(t), Options: sessions(sameMembers()),
	}, []int{3, 5}, append(gryff.PathsRSC(), sessionPaths()...))
}

func TestGryffRSCSurvivesChanges(t *testing.T) {
	t.Parallel()
	options := sessions(faults.Kinds())
	options.Members = nil
	survives(t, Search{
		Start: Member(gryff.FactoryRSC), First: 1, Seeds: seedsFor(t) / 2, Options: options,
	}, append(gryff.ChangePaths(), sessionPaths()...))
}

// halfKeys are those of drawHalf; of two shards, they are in one each.
var halfKeys = [2]string{schedule.MixedPrefix + "0", schedule.MixedPrefix + "1"}

// drawHalf makes a schedule in which a write gets no further than its coordinator, for as long as that waits before it
// asks again. Two of five members are near each other, among them the coordinator, and the other three too: what a
// session reads at the one side, a quorum on the other does not know of, unless the session says so. It goes on with
// other operations, tells others, moves, and fences; its coordinator stops now and then, or does not get through with
// what the read writes back. Random schedules come to this seldom, as reads spread what they read.
func drawHalf(seed uint64) schedule.Schedule {
	const ms = time.Millisecond
	s, draw := pentagon(seed)
	s.Environment.Regular, s.Environment.Retry, s.Environment.Suspect, s.Environment.Shuffled, s.Environment.Patience = true, 600*ms, 1800*ms, draw.Chance(200), 80*ms
	s.Abandon = 300
	for a := range 5 {
		for b := range 5 {
			switch {
			case a == b:
			case (a < 2) == (b < 2):
				s.Environment.Network.RTT[a][b] = 10 * ms
			default:
				s.Environment.Network.RTT[a][b] = 40 * ms
			}
		}
	}
	x, y := halfKeys[0], halfKeys[1]
	count := 0
	value := func() register.Value { count++; return register.Value{byte('0' + count)} }
	plan := func(home int, at time.Duration, key string, op register.Operation) *schedule.Plan {
		op.Key = key
		s.Clients = append(s.Clients, schedule.Plan{Home: home, Operations: []schedule.Planned{{At: at, Operation: op}}})
		return &s.Clients[len(s.Clients)-1]
	}
	any := func(key string, rmws int) register.Operation {
		op := register.Operation{Kind: register.Read, Key: key, Regular: true}
		switch {
		case draw.Chance(150):
			op = register.Operation{Kind: register.Write, Key: key, Value: value()}
		case draw.Chance(rmws):
			op = schedule.Call(key, register.GetAndSet, string(value()))
		}
		return op
	}
	key := func() string { return []string{x, y}[draw.Below(2)] }
	plan(0, 20*ms, x, register.Operation{Kind: register.Write, Value: value()})
	plan(3, 20*ms, y, register.Operation{Kind: register.Write, Value: value()})
	plan(0, 200*ms, x, register.Operation{Kind: register.Write, Value: value()})
	cut := 235*ms + draw.Between(0, 5*ms)
	s.Faults = []faults.Fault{{Kind: faults.Loss, Node: 0, At: cut, For: draw.Between(5*ms, 15*ms), Rate: 1000}}
	reader := plan(1, cut+draw.Between(10*ms, 40*ms), x, register.Operation{Kind: register.Read, Regular: true})
	at := reader.Operations[0].At
	const others = 4
	for range 1 + draw.Below(4) {
		at += draw.Between(0, 120*ms)
		if draw.Chance(700) {
			kinds := []schedule.AsideKind{schedule.AsideMove, schedule.AsideDie, schedule.AsideFence, schedule.AsideTell, schedule.AsideFenceAndTell}
			a := schedule.Aside{At: at, Kind: kinds[draw.Below(len(kinds))], Whom: 4 + draw.Below(others), Delay: draw.Between(0, 5*ms)}
			if a.Kind == schedule.AsideMove {
				a.Whom = 2 + draw.Below(3)
			}
			reader.Asides = append(reader.Asides, a)
		}
		op := any(key(), 400)
		reader.Operations = append(reader.Operations, schedule.Planned{At: at, Operation: op})
	}
	for range others {
		at := cut + draw.Between(30*ms, 400*ms)
		c := plan(2+draw.Below(3), at, key(), any("", 150))
		for range draw.Below(4) {
			at += draw.Between(0, 20*ms)
			c.Operations = append(c.Operations, schedule.Planned{At: at, Operation: any(key(), 150)})
		}
	}
	if draw.Chance(400) {
		s.Faults = append(s.Faults, faults.Fault{Kind: faults.Crash, Node: 1, At: cut + draw.Between(50*ms, 200*ms), For: draw.Between(ms, 300*ms), Rate: 500})
	}
	if draw.Chance(400) { // what it writes back when the read returns gets no further, either
		s.Faults = append(s.Faults, faults.Fault{
			Kind: faults.Loss, Node: 1, At: reader.Operations[0].At + 40*ms - draw.Between(0, 5*ms), For: draw.Between(5*ms, 15*ms), Rate: 1000,
		})
	}
	s.Settle = 3000 * ms
	return s
}

// drawHalves is drawHalf with each of its keys in a shard of its own.
func drawHalves(seed uint64) schedule.Schedule {
	s := drawHalf(seed)
	s.Environment.Shards = len(halfKeys)
	return s
}

// What waits for other shards has these schedules regular sequential, too.
func TestGryffRSCFencesShards(t *testing.T) {
	t.Parallel()
	if cluster.ShardOf(halfKeys[0], 2) == cluster.ShardOf(halfKeys[1], 2) {
		t.Fatal("both keys are in one shard")
	}
	mustNotFind(t, drawHalves, Member(gryff.FactoryRSC), 500)
}

// The model is weaker than linearizability, and schedules come to that: else the others would say nothing of sessions.
func TestGryffRSCIsNotLinearizable(t *testing.T) {
	t.Parallel()
	const seeds = 300
	weaker := 0
	for seed := range uint64(seeds) {
		o := Run(drawHalf(seed), Member(gryff.FactoryRSC), nil)
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
	for _, mutant := range []string{"gryff/drop-dependency", "gryff/rmw-without-write-back", "gryff/held-at-once"} {
		program.Run(t, mutant, mutant, func(t *testing.T) {
			mustFind(t, drawHalf, Member(gryff.FactoryRSC), 0, 3000, found(check.Violation))
		})
	}
}

func TestMutantsOfSessionsAreFound(t *testing.T) {
	t.Parallel()
	program := mutants.Build(t)
	for mutant, draw := range map[string]func(uint64) schedule.Schedule{
		"register/drop-at-failure": drawHalf, "clients/drop-at-failover": drawHalf, "clients/drop-at-move": drawHalf,
		"clients/tell-bare": drawHalf, "clients/fence-unawaited": drawHalf, "register/unfenced-shards": drawHalves,
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
