package simulator

import (
	"testing"

	"github.com/georegister/georegister/replica/protocol/abd"
	"github.com/georegister/georegister/replica/protocol/epaxos"
	"github.com/georegister/georegister/replica/protocol/gryff"
	"github.com/georegister/georegister/replica/simulator/check"
	"github.com/georegister/georegister/replica/simulator/directed"
	"github.com/georegister/georegister/replica/simulator/faults"
	"github.com/georegister/georegister/replica/simulator/schedule"
	"github.com/georegister/georegister/test/mutants"
)

// What clients notice after a rare chain of events only, the rules of members, witnesses and decisions show at once.
func TestBreachesAreFound(t *testing.T) {
	t.Parallel()
	breach := byClass(found(check.Breach))
	changes := schedule.Options{Faults: []faults.Kind{faults.Change}, RMWs: schedule.FewRMWs}
	mustFindEach(t, Member(abd.Factory), breach, []hunt{
		{"quorum/count-oneself-twice", changes, 0, 5},
		{"view/cover-by-joining", changes, 0, 300},
		{"membership/wait-for-nobody", changes, 0, 100},
	})
	mustFindEach(t, Member(gryff.Factory), breach, []hunt{{"gryff/take-any-operation", changes, 0, 5}})
	mustFindEach(t, Member(epaxos.Factory), breach, []hunt{{"instance/reads-first", changes, 0, 100}})
	stops := schedule.Options{Faults: []faults.Kind{faults.Crash, faults.Limits}, RMWs: schedule.ManyRMWs}
	pages := schedule.Options{Faults: []faults.Kind{faults.Change, faults.Limits}, RMWs: schedule.ManyRMWs}
	wipes := schedule.Options{Faults: []faults.Kind{faults.Wipe}, RMWs: schedule.ManyRMWs}
	mustFindEach(t, Member(shortRaft), breach, []hunt{
		{"raft/answer-before-persist", stops, 0, 100},
		{"session/forget-another", stops, 0, 500},
		{"raft/keep-cut", stops, 0, 500},
		{"raft/count-dead-disks", wipes, 0, 30},
		{"raft/forget-term", wipes, 0, 30},
		{"raft/recall-authors", schedule.Options{Faults: sameMembers(), RMWs: schedule.ManyRMWs}, 0, 500},
		{"raft/copy-volatile", pages, 0, 100},
	})
	losses := schedule.Options{Faults: sameMembers(), RMWs: schedule.ManyRMWs, Members: []int{3, 5}}
	pauses := schedule.Options{Faults: []faults.Kind{faults.Pause}, RMWs: schedule.ManyRMWs, Members: []int{3}}
	mustFindEach(t, Member(shortCURPRaft), breach, []hunt{
		{"curpraft/gather-volatile", stops, 0, 50},
		{"curpraft/tell-half", losses, 0, 100},
		{"curpraft/heed-acks", losses, 0, 100},
		{"curpraft/quorum-of-witnesses", losses, 0, 30},
		{"curpraft/gather-deposed", losses, 0, 300},
		{"curpraft/tell-in-term-before", pauses, 0, 500},
	})
	program := mutants.Build(t)
	program.Run(t, "raft/keep-suffix", "raft/keep-suffix", func(t *testing.T) {
		mustFind(t, directed.LeadersCutOff, Member(shortRaft), 0, 500, found(check.Breach))
	})
	for mutant, draw := range map[string]func(uint64) schedule.Schedule{
		"membership/rescue-any":        drawn(curpOptions(plain(faults.CURPKinds())...)),
		"membership/rescue-as-founded": directed.Splits,
		"core/forget-highest":          drawn(curpOptions(plain(faults.CURPKinds())...)),
		"curp/trust-pages":             drawn(curpOptions(append(plain(faults.CURPKinds()), faults.Limits)...)),
		"store/horizon-by-session":     drawn(curpOptions(append(plain(faults.CURPKinds()), faults.Limits)...)),
		"core/compact-without-freeze":  drawn(curpOptions(plain(faults.CURPKinds())...)),
		"core/believe-half": drawn(curpOptions(faults.OldCopy, faults.Crash, faults.Partition,
			faults.Loss)),
	} { // order is irrelevant: each is a test
		program.Run(t, mutant, mutant, func(t *testing.T) { mustFail(t, draw, nil, 0, 500, breach) })
	}
}
