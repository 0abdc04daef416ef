package controllers

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/georegister/georegister/controllers/members"
	"github.com/georegister/georegister/controllers/world"
	"github.com/georegister/georegister/replica/membership"
)

// ask has every member that can be called say how it is.
func (o *observer) ask(ctx context.Context, s *world.Snapshot) {
	cluster := client.ObjectKeyFromObject(s.Cluster)
	survey(s, s.Members, memberOf,
		func(targets []members.Target) []members.Answer {
			return o.options.Members.Ask(ctx, cluster.String(), targets)
		},
		func(m *world.Member, said *world.Report, silence string) { m.Report, m.Silence = said, silence })
	o.silences.note(cluster, s.Members, s.Now)
}

// askWitnesses has the witness in each member's pod, or in a pod of its own, say how it is, where there are any. It
// touches nothing of the members that ask does.
func (o *observer) askWitnesses(ctx context.Context, s *world.Snapshot) {
	if !s.Cluster.Spec.Partitioned() {
		return
	}
	survey(s, witnessing(s), witnessOf,
		func(targets []members.Target) []members.WitnessAnswer {
			return o.options.Members.AskWitnesses(ctx, client.ObjectKeyFromObject(s.Cluster).String(), targets)
		},
		func(m *world.Member, said *membership.WitnessReport, silence string) {
			m.Witness, m.WitnessSilence = said, silence
		})
}

// survey asks those of some members that can be called, and notes of each what it says, or why it says nothing.
func survey[T any](
	s *world.Snapshot, all []world.Member, target func(*world.Snapshot, *world.Member) (members.Target, string),
	ask func([]members.Target) []members.Reply[T], note func(m *world.Member, said T, silence string),
) {
	var targets []members.Target
	var asked []*world.Member
	for i := range all {
		var nothing T
		at, silence := target(s, &all[i])
		if silence == "" {
			targets, asked = append(targets, at), append(asked, &all[i])
		}
		note(&all[i], nothing, silence)
	}
	for i, answer := range ask(targets) {
		note(asked[i], answer.Report, reason(answer.Err))
	}
}
