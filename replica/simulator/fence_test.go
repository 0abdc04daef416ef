package simulator

import (
	"github.com/georegister/georegister/test/mutants"

	"testing"

	"github.com/georegister/georegister/replica/simulator/check"
	"github.com/georegister/georegister/replica/simulator/directed"

	"github.com/georegister/georegister/replica/protocol/abd"
	"github.com/georegister/georegister/replica/protocol/gus"
	"github.com/georegister/georegister/replica/protocol/member"
	"github.com/georegister/georegister/replica/protocol/rmwpaxos"
)

func TestLostDisksAreFenced(t *testing.T) {
	t.Parallel()
	program := mutants.Build(t)
	for _, c := range []struct {
		name    string
		inner   member.Factory
		mutants []string
	}{
		{"ABD", abd.Factory, []string{"quorum/count-dead-disks", "member/keep-incarnation"}},
		{"Gus", gus.Factory, []string{"quorum/count-dead-disks", "member/keep-incarnation"}},
		{"RMWPaxos", rmwpaxos.Factory, []string{"rmwpaxos/count-dead-disks", "member/keep-incarnation"}},
	} {
		for _, mutant := range c.mutants {
			program.Run(t, c.name+", "+mutant, mutant, func(t *testing.T) {
				mustFind(t, directed.LostAcknowledgements, Member(c.inner), 0, 500, found(check.Violation))
			})
		}
	}
}
