package controllers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/controllers/apply"
	"github.com/georegister/georegister/controllers/decide"
	"github.com/georegister/georegister/controllers/decide/message"
	"github.com/georegister/georegister/controllers/decide/status"
	"github.com/georegister/georegister/controllers/world"
)

// executor carries plans out. What a plan was decided on may have changed since: whoever a write is for refuses it
// then.
type executor struct {
	*access
	events events
	keyed  sync.Map // the UIDs of the clusters whose Secret was seen, by their names
}

// carryOut does what a plan says, but for the status. An object that can't be applied does not keep a member from
// being repaired.
func (e *executor) carryOut(ctx context.Context, s world.Snapshot, plan decide.Plan) error {
	others, failed := e.keys(ctx, s)
	objects := plan.Apply
	if failed != nil { // pods would mount what may be anybody's
		objects = slices.DeleteFunc(slices.Clone(objects), func(o client.Object) bool {
			_, is := o.(*appsv1.StatefulSet)
			return is
		})
	}
	taken, err := e.applier.Apply(ctx, s.Cluster, objects, others...)
	err = errors.Join(failed, err)
	for _, t := range taken {
		e.events.tell(s.Cluster, message.Warning(message.WhyTaken(t), "Block", message.Taken(s.Cluster, t)))
	}
	if len(taken) > 0 { // the step was decided without knowing that
		return errors.Join(err, fmt.Errorf("%w: %s %s can't be used", apply.ErrStale, taken[0].Kind, taken[0].Name))
	}
	err = errors.Join(
		err,
		e.applier.Prune(ctx, s.Cluster.UID, plan.Prune),
		e.begin(ctx, s, plan.Lives),
	)
	if plan.Step != nil {
		stepped := e.take(ctx, s, plan.Step)
		if stepped != nil {
			return errors.Join(err, stepped)
		}
	}
	e.events.tell(s.Cluster, plan.Events...)
	return err
}

// applyEmulation carries out what a plan says of the network, and has its status say what failed. Nothing else waits
// for it.
func (e *executor) applyEmulation(
	ctx context.Context, cluster *v1alpha1.GeoRegisterCluster, plan *decide.Plan,
) error {
	gone := errors.Join(e.applier.Remove(ctx, plan.Emulation.Remove...),
		e.applier.Annotate(ctx, plan.Emulation.Release...))
	taken, failure := e.applier.Make(ctx, plan.Emulation.Make...)
	if len(taken) > 0 {
		e.events.tell(cluster, status.NetworkTaken(cluster, &plan.Status, taken)...)
	}
	if failure = errors.Join(gone, failure); failure == nil && len(taken) == 0 {
		if n, m, k := len(plan.Emulation.Remove), len(plan.Emulation.Make), len(plan.Emulation.Release); n+m+k > 0 {
			log.FromContext(ctx).Info("Changed the emulated network", "removed", n, "made", m, "released", k)
		}
		e.events.tell(cluster, plan.Emulation.Events...)
		return nil
	}
	if failed := apply.Failure(failure); failed != nil && len(taken) == 0 {
		status.Amend(&plan.Status, cluster.Generation, message.Condition(v1alpha1.ConditionWANInjected,
			metav1.ConditionFalse, "Failed", "The operator tries again: %s", reason(failed)))
	}
	return failure
}
