package simulator

import (
	"strings"
	"testing"

	"github.com/georegister/georegister/replica/simulator/check"
	"github.com/georegister/georegister/replica/simulator/directed"
	"github.com/georegister/georegister/replica/simulator/faults"

	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/epaxos"
	"github.com/georegister/georegister/replica/protocol/gryff"
	"github.com/georegister/georegister/replica/protocol/member"
	"github.com/georegister/georegister/replica/protocol/quorum"
	"github.com/georegister/georegister/replica/simulator/schedule"
	"github.com/georegister/georegister/test/mutants"
)

// divided counts what a mistake of instances must lead to: members that disagree on one, or clients that notice. A
// member that stops, or does not go on, is neither.
func divided(f *Failure) bool {
	return found("")(f.Class) || f.Class == check.Broken && strings.Contains(f.Reason, "is committed twice")
}

// noticed counts what clients notice.
func noticed(f *Failure) bool { return found("")(f.Class) }

// hasty is a protocol whose newcomers vote before they are settled.
func hasty(inner member.Factory) member.Factory {
	return func(c protocol.Config, j *protocol.Journal, known *quorum.Incarnations) member.Inner {
		return unsettled{inner(c, j, known)}
	}
}

type unsettled struct{ member.Inner }

func (u unsettled) Settle(now protocol.Instant) bool {
	u.Inner.Settle(now)
	return true
}

func TestMistakesOfLostDisksAreFound(t *testing.T) {
	t.Parallel()
	wipes := schedule.Options{Faults: []faults.Kind{faults.Wipe, faults.Partition}, RMWs: schedule.ManyRMWs, Members: []int{3, 5}}
	rightEPaxos, rightGryff := Member(epaxos.Factory), Member(gryff.Factory)
	hastyEPaxos, hastyGryff := Member(hasty(epaxos.Factory)), Member(hasty(gryff.Factory))
	found := mutants.Build(t)
	for _, c := range []struct {
		name   string
		mutant string
		draw   func(uint64) schedule.Schedule
		start  Start
		after  uint64
		counts func(*Failure) bool
	}{
		{"count-dead-disks, EPaxos", "quorum/count-dead-disks", directed.VotesOfLostDisksOfThree, rightEPaxos, 0, divided},
		{"count-dead-disks, Gryff's rmws", "quorum/count-dead-disks", directed.VotesOfLostDisks, rightGryff, 0, divided},
		{"count-dead-disks, Gryff's registers", "quorum/count-dead-disks", directed.LostAcknowledgements, rightGryff, 0, noticed},
		{"reuse-numbers, EPaxos", "instance/reuse-numbers", directed.NumbersReused, rightEPaxos, 130, divided},
		{"reuse-numbers, Gryff", "instance/reuse-numbers", directed.NumbersReused, rightGryff, 130, divided},
		// Members that settle deny nothing, so recovery is shown with some that don't. (With EPaxos' own rule a new disk
		// agrees to no instance of others, so that what the lost one denied stays denied.)
		{"count-dead-disks, recovery of Gryff", "quorum/count-dead-disks", directed.PromisesOfLostDisks, hastyGryff, 0, divided},
		{"trust-new-disk, EPaxos", "instance/trust-new-disk", directed.CommitsLost, hastyEPaxos, 0, divided},
		{"trust-new-disk, Gryff", "instance/trust-new-disk", directed.CommitsLost, hastyGryff, 0, divided},
		{"keep-incarnation, EPaxos", "member/keep-incarnation", directed.VotesOfLostDisksOfThree, rightEPaxos, 0, divided},
		{"keep-incarnation, Gryff's rmws", "member/keep-incarnation", directed.VotesOfLostDisks, rightGryff, 0, divided},
		{"keep-incarnation, Gryff's registers", "member/keep-incarnation", directed.LostAcknowledgements, rightGryff, 0, noticed},
		{"transfer-from-one, EPaxos", "member/transfer-from-one", drawn(wipes), rightEPaxos, 300, noticed},
		{"transfer-from-one, Gryff", "member/transfer-from-one", drawn(wipes), rightGryff, 90, noticed},
	} {
		found.Run(t, c.name, c.mutant, func(t *testing.T) { mustFail(t, c.draw, c.start, c.after, 500, c.counts) })
	}
	t.Run("right", func(t *testing.T) { mustNotFind(t, directed.VotesOfLostDisksOfThree, rightEPaxos, 500) })
	t.Run("not settled", func(t *testing.T) { // does no harm by itself
		for _, hasty := range []Start{hastyEPaxos, hastyGryff} {
			mustNotFind(t, directed.CommitsLost, hasty, 150)
			mustNotFind(t, directed.PromisesOfLostDisks, hasty, 150)
		}
	})
}
