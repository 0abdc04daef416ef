package controllers

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/georegister/georegister/controllers/build"
	"github.com/georegister/georegister/controllers/decide"
	"github.com/georegister/georegister/controllers/decide/rules"
	"github.com/georegister/georegister/controllers/members"
	"github.com/georegister/georegister/controllers/world"
)

// take carries out a step. Every one is refused by whoever it is for if it was decided on an older state.
func (e *executor) take(ctx context.Context, s world.Snapshot, step rules.Step) error {
	var done string
	var what []any
	var err error
	switch step := step.(type) {
	case rules.WriteRecord:
		done, what = "Wrote the record of the view", []any{"epoch", step.View.Epoch, "what", step.Kind,
			"reason", step.Reason}
		err = e.writeRecord(ctx, s, step)
	case rules.SendView:
		done, what = "Told members their view", []any{"epoch", step.View.Epoch, "members", step.Members}
		err = e.sendView(ctx, s, step)
	case rules.DeletePod:
		done, what = "Deleted a pod", []any{"pod", step.Name, "reason", step.Reason}
		err = e.deletePod(ctx, s, step)
	case rules.Discard:
		done, what = "Discarded what was left of a member", []any{"member", step.Member}
		err = e.applier.Delete(ctx, step.Objects...)
	default:
		err = fmt.Errorf("step %T is not known", step)
	}
	if err == nil {
		log.FromContext(ctx).Info(done, what...)
	}
	return err
}

// deletePod ends a pod as a step says.
func (e *executor) deletePod(ctx context.Context, s world.Snapshot, step rules.DeletePod) error {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: s.Cluster.Namespace, Name: step.Name, UID: step.UID, ResourceVersion: step.ResourceVersion,
	}}
	if step.Evict {
		return e.applier.Evict(ctx, pod)
	}
	return e.applier.Delete(ctx, pod)
}

// writeRecord replaces the record that was observed, or creates it if there was none.
func (e *executor) writeRecord(ctx context.Context, s world.Snapshot, step rules.WriteRecord) error {
	record := build.Record(build.Input{
		Cluster: s.Cluster, View: step.View, ClusterID: step.View.Cluster, Settings: s.Settings,
	})
	return e.applier.Record(ctx, record, step.UID, step.ResourceVersion)
}

// sendView gives members a view. One that holds a later view refuses it; what it holds is seen the next time.
func (e *executor) sendView(ctx context.Context, s world.Snapshot, step rules.SendView) error {
	var targets []members.Target
	for _, id := range step.Members {
		m := s.Member(id)
		if m == nil {
			continue
		}
		if target, silence := memberOf(&s, m); silence == "" {
			targets = append(targets, target)
		}
	}
	err := e.slots.without(func() error {
		return e.options.Members.Configure(ctx, client.ObjectKeyFromObject(s.Cluster).String(), targets, step.View)
	})
	if err != nil {
		return fmt.Errorf("tell view %d: %w", step.View.Epoch, err)
	}
	return nil
}

// begin has witnesses begin and end lives as a plan says. The view that asks for them is recorded, so it may be
// repeated, and done by two operators.
func (e *executor) begin(ctx context.Context, s world.Snapshot, lives decide.Lives) error {
	if len(lives.Start)+len(lives.End) == 0 {
		return nil
	}
	var targets []members.Target
	for _, m := range witnessing(&s) {
		if m.Witness != nil {
			target, _ := witnessOf(&s, &m) // it answered there
			targets = append(targets, target)
		}
	}
	err := e.slots.without(func() error {
		return e.options.Members.Live(ctx, client.ObjectKeyFromObject(s.Cluster).String(), targets, s.Record.View,
			lives.Start, lives.End)
	})
	if err == nil {
		log.FromContext(ctx).Info("Had witnesses begin and end lives", "begun", len(lives.Start),
			"ended", len(lives.End))
	}
	return err
}
