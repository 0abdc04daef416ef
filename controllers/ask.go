package controllers

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/georegister/georegister/controllers/members"
	"github.com/georegister/georegister/controllers/world"
)

// ask has every member that can be called say how it is.
func (o *observer) ask(ctx context.Context, s *world.Snapshot) {
	var targets []members.Target
	var asked []*world.Member
	for i := range s.Members {
		m := &s.Members[i]
		target, silence := targetOf(m, s.ClusterID)
		if silence != "" {
			m.Silence = silence
			continue
		}
		targets, asked = append(targets, target), append(asked, m)
	}
	for i, answer := range o.options.Members.Ask(ctx, client.ObjectKeyFromObject(s.Cluster).String(), targets) {
		asked[i].Report = answer.Report
		if answer.Err != nil {
			asked[i].Silence = reason(answer.Err)
		}
	}
	o.silences.note(client.ObjectKeyFromObject(s.Cluster), s.Members, s.Now)
}

// askWitnesses has the witness in each member's pod, or in a pod of its own, say how it is, where there are any. It
// touches nothing of the members that ask does.
func (o *observer) askWitnesses(ctx context.Context, s *world.Snapshot) {
	if !s.Cluster.Spec.Partitioned() {
		return
	}
	var targets []members.Target
	var asked []*world.Member
	for _, m := range witnessing(s) {
		target, silence := witnessOf(s, m)
		if o.options.Witnesses == nil {
			silence = "this operator asks no witnesses"
		}
		if m.WitnessSilence = silence; silence == "" {
			targets, asked = append(targets, target), append(asked, m)
		}
	}
	if len(targets) == 0 {
		return
	}
	for i, answer := range o.options.Witnesses.AskWitnesses(ctx,
		client.ObjectKeyFromObject(s.Cluster).String(), targets) {
		asked[i].Witness = answer.Report
		if answer.Err != nil {
			asked[i].WitnessSilence = reason(answer.Err)
		}
	}
}
