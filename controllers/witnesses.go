package controllers

import (
	"context"
	"net"
	"strconv"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/georegister/georegister/controllers/build"
	"github.com/georegister/georegister/controllers/decide"
	"github.com/georegister/georegister/controllers/members"
	"github.com/georegister/georegister/controllers/world"
	"github.com/georegister/georegister/replica/membership"
)

// askWitnesses has the witness in each member's pod, or in a pod of its own, say how it is, where there are any. It
// touches nothing of the members that ask does.
func (r *Reconciler) askWitnesses(ctx context.Context, s *world.Snapshot) {
	if !s.Cluster.Spec.Partitioned() {
		return
	}
	var targets []members.WitnessTarget
	var asked []*world.Member
	for _, m := range witnessing(s) {
		target, silence := witnessOf(s, m)
		if r.options.Witnesses == nil {
			silence = "this operator asks no witnesses"
		}
		if m.WitnessSilence = silence; silence == "" {
			targets, asked = append(targets, target), append(asked, m)
		}
	}
	if len(targets) == 0 {
		return
	}
	for i, answer := range r.options.Witnesses.AskWitnesses(ctx,
		client.ObjectKeyFromObject(s.Cluster).String(), targets) {
		asked[i].Witness = answer.Report
		if answer.Err != nil {
			asked[i].WitnessSilence = reason(answer.Err)
		}
	}
}

// witnessing are those in whose pods witnesses are: members, or dedicated witnesses.
func witnessing(s *world.Snapshot) (all []*world.Member) {
	in := s.Members
	if s.Cluster.Spec.Dedicated() {
		in = s.Witnesses
	}
	for i := range in {
		all = append(all, &in[i])
	}
	return all
}

// witnessOf is where the witness in a pod can be called, or why it can't.
func witnessOf(s *world.Snapshot, m *world.Member) (members.WitnessTarget, string) {
	at, silence := targetOf(m, s.ClusterID)
	if silence != "" {
		return members.WitnessTarget{}, silence
	}
	id := m.ID
	if !s.Cluster.Spec.Dedicated() {
		id = membership.WitnessOf(m.ID)
	}
	host, _, _ := net.SplitHostPort(at.Address) // made a moment ago
	return members.WitnessTarget{
		ID: id, ClusterID: s.ClusterID, Address: net.JoinHostPort(host, strconv.Itoa(build.WitnessPort)),
	}, ""
}

// begin has witnesses begin and end lives as a plan says. The view that asks for them is recorded, so it may be
// repeated, and done by two operators.
func (r *Reconciler) begin(ctx context.Context, s world.Snapshot, lives decide.Lives) error {
	if len(lives.Start)+len(lives.End) == 0 {
		return nil
	}
	var targets []members.WitnessTarget
	for _, m := range witnessing(&s) {
		if m.Witness != nil {
			target, _ := witnessOf(&s, m) // it answered there
			targets = append(targets, target)
		}
	}
	var err error
	r.slots.without(func() {
		err = r.options.Witnesses.Live(ctx, client.ObjectKeyFromObject(s.Cluster).String(), targets, s.Record.View,
			lives.Start, lives.End)
	})
	if err == nil {
		log.FromContext(ctx).Info("Had witnesses begin and end lives", "begun", len(lives.Start),
			"ended", len(lives.End))
	}
	return err
}
