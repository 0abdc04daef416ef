package simulator

import (
	"testing"

	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/epaxos"
	"github.com/georegister/georegister/replica/protocol/gryff"
	"github.com/georegister/georegister/replica/protocol/instance"
	"github.com/georegister/georegister/replica/protocol/member"
	"github.com/georegister/georegister/replica/simulator/check"
	"github.com/georegister/georegister/replica/simulator/directed"
	"github.com/georegister/georegister/replica/simulator/faults"
	"github.com/georegister/georegister/replica/simulator/schedule"
	"github.com/georegister/georegister/test/mutants"
)

// tolerating is a protocol whose members are told that so many of them may be lost at once.
func tolerating(f int, factory member.Factory) Start {
	return func(config protocol.Config, journal *protocol.Journal) (protocol.Protocol, error) {
		config.Faults = f
		return member.Start(config, journal, factory)
	}
}

// toldOf are schedules of members that are told so.
func toldOf(f int, kinds []faults.Kind, members ...int) schedule.Options {
	return schedule.Options{Faults: kinds, RMWs: schedule.ManyRMWs, Members: members, Tolerance: f, Losses: f}
}

// toldSessions are those with sessions.
func toldSessions(f int, kinds []faults.Kind, members ...int) schedule.Options {
	options := toldOf(f, kinds, members...)
	options.Regular = true
	return options
}

// With fewer faults to tolerate, instances have smaller fast quorums, and recoveries may have to wait for more members.
func TestFewerFaultsAreSurvived(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		f       int
		members []int
		factory member.Factory
		options func(f int, kinds []faults.Kind, members ...int) schedule.Options
		paths   []string
	}{
		{"EPaxos, f = 1", 1, []int{5, 7}, epaxos.Factory, toldOf, append(epaxos.Paths(), instance.FewFaultsPaths()...)},
		{"EPaxos, f = 2", 2, []int{5, 7}, epaxos.Factory, toldOf, nil},
		{"Gryff, f = 1", 1, []int{5, 7}, gryff.Factory, toldOf, nil},
		{"Gryff-RSC, f = 1", 1, []int{5, 7}, gryff.FactoryRSC, toldSessions, sessionPaths()},
	} {
		t.Run(c.name, func(t *testing.T) {
			options := c.options(c.f, sameMembers(), c.members...)
			survives(t, Search{Start: tolerating(c.f, c.factory), First: 1, Seeds: seedsFor(t) / 4, Options: options}, c.paths)
		})
		t.Run(c.name+", changes", func(t *testing.T) {
			options := c.options(c.f, faults.Kinds(), 3, 5, 7)
			survives(t, Search{Start: tolerating(c.f, c.factory), First: 1, Seeds: seedsFor(t) / 12, Options: options}, nil)
		})
	}
}

// With any minority to be lost, recoveries of EPaxos validate what few agreed to.
func TestValidatedRecoveriesSurvive(t *testing.T) {
	t.Parallel()
	options := schedule.Options{Faults: sameMembers(), RMWs: schedule.ManyRMWs, Members: []int{7}}
	t.Run("seven members", func(t *testing.T) {
		survives(t, Search{Start: Member(epaxos.Factory), First: 1, Seeds: seedsFor(t) / 4, Options: options}, nil)
	})
	program := mutants.Build(t)
	for _, name := range []string{"deny-few-votes", "validate-one-short"} { // the others: package instance
		program.Run(t, name, "instance/"+name, func(t *testing.T) {
			mustFail(t, directed.CommitsUnheard, Member(epaxos.Factory), 0, 500, divided)
		})
	}
}

// told are schedules of members that are told how many of them may be lost.
func told(f int, draw func(seed uint64) schedule.Schedule) func(seed uint64) schedule.Schedule {
	return func(seed uint64) schedule.Schedule {
		s := draw(seed)
		s.Environment.Tolerance, s.Environment.Losses = f, f
		return s
	}
}

func TestMistakesWithFewerFaultsAreFound(t *testing.T) {
	t.Parallel()
	unheard, open := directed.CommitsUnheard, directed.AnsweredWhileOpen
	t.Run("correct", func(t *testing.T) {
		for _, f := range []int{0, 1, 2} {
			mustNotFind(t, told(f, unheard), tolerating(f, epaxos.Factory), seedsFor(t)/30)
			mustNotFind(t, told(f, unheard), tolerating(f, gryff.Factory), seedsFor(t)/30)
			mustNotFind(t, told(f, open), tolerating(f, epaxos.Factory), seedsFor(t)/100)
		}
	})
	stops := []faults.Kind{faults.Crash, faults.Torn, faults.Partition, faults.Loss, faults.Reorder}
	crashed := drawn(toldOf(1, stops, 5))
	program := mutants.Build(t)
	for _, c := range []struct {
		name, mutant string
		draw         func(uint64) schedule.Schedule
		f            int
		factory      member.Factory
		after        uint64
	}{
		{"recover-by-majority, EPaxos", "recover-by-majority", unheard, 1, epaxos.Factory, 0},
		{"recover-by-majority, Gryff", "recover-by-majority", unheard, 1, gryff.Factory, 0},
		{"recover-by-majority, crashes", "recover-by-majority", crashed, 1, epaxos.Factory, 0},
		{"recover-one-vote, EPaxos", "recover-one-vote", unheard, 1, epaxos.Factory, 0},
		{"recover-one-vote, Gryff", "recover-one-vote", unheard, 1, gryff.Factory, 0},
		{"recover-one-vote, f = 2", "recover-one-vote", unheard, 2, epaxos.Factory, 0},
		{"fast-known-to-few, f = 2", "fast-known-to-few", unheard, 2, epaxos.Factory, 0},
		{"ask-all-alone", "ask-all-alone", unheard, 1, epaxos.Factory, 0},
		{"stay-alone", "stay-alone", crashed, 1, epaxos.Factory, 480},
		{"recover-initial", "recover-initial", unheard, 1, epaxos.Factory, 0},
	} {
		program.Run(t, c.name, "instance/"+c.mutant, func(t *testing.T) {
			mustFail(t, told(c.f, c.draw), tolerating(c.f, c.factory), c.after, 500, divided)
		})
	}
	program.Run(t, "answer-unordered", "instance/answer-unordered", func(t *testing.T) {
		draw := told(1, open)
		mustFail(t, draw, tolerating(1, epaxos.Factory), 0, 300, byClass(found(check.Violation)))
	})
}
