package controllers

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/georegister/georegister/controllers/build"
	"github.com/georegister/georegister/controllers/decide"
	"github.com/georegister/georegister/controllers/members"
	"github.com/georegister/georegister/controllers/world"
	"github.com/georegister/georegister/replica/view"
)

// take carries out a step. Every one is refused by whoever it is for if it was decided on an older state.
func (r *Reconciler) take(ctx context.Context, s world.Snapshot, step decide.Step) error {
	logger := log.FromContext(ctx)
	switch step := step.(type) {
	case decide.FoundCluster:
		logger.Info("Founded the cluster", "id", step.View.Cluster, "members", step.View.Size())
		return r.writeRecord(ctx, s, step.View, "", "")
	case decide.ChangeView:
		logger.Info("Changed the view", "epoch", step.View.Epoch, "reason", step.Reason)
		return r.writeRecord(ctx, s, step.View, step.UID, step.ResourceVersion)
	case decide.RebuildRecord:
		logger.Info("Rebuilt the record of the view", "epoch", step.View.Epoch)
		return r.writeRecord(ctx, s, step.View, step.UID, step.ResourceVersion)
	case decide.Tell:
		logger.Info("Told members their view", "epoch", step.View.Epoch, "members", step.Members)
		return r.tell(ctx, s, step)
	case decide.DeletePod:
		logger.Info("Deleted a pod", "pod", step.Name, "reason", step.Reason)
		return r.applier.Delete(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: s.Cluster.Namespace, Name: step.Name, UID: step.UID, ResourceVersion: step.ResourceVersion,
		}})
	case decide.Discard:
		logger.Info("Discarded what was left of a member", "member", step.Member)
		return r.applier.Delete(ctx, step.Objects...)
	}
	return fmt.Errorf("step %T is not known", step)
}

// writeRecord replaces the record that was observed, or creates it if there was none.
func (r *Reconciler) writeRecord(ctx context.Context, s world.Snapshot, v view.View, uid types.UID, resourceVersion string) error {
	record := build.Record(build.Input{Cluster: s.Cluster, View: v, ClusterID: v.Cluster, Settings: s.Settings})
	return r.applier.Record(ctx, record, uid, resourceVersion)
}

// tell gives members a view. One that holds a later view refuses it; what it holds is seen the next time.
func (r *Reconciler) tell(ctx context.Context, s world.Snapshot, step decide.Tell) error {
	var targets []members.Target
	for _, id := range step.Members {
		m := s.Member(id)
		if m == nil {
			continue
		}
		if target, silence := targetOf(m, s.ClusterID); silence == "" {
			targets = append(targets, target)
		}
	}
	if err := r.options.Members.Configure(ctx, client.ObjectKeyFromObject(s.Cluster).String(), targets, step.View); err != nil {
		return fmt.Errorf("tell view %d: %w", step.View.Epoch, err)
	}
	return nil
}
