package controllers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	grpcstatus "google.golang.org/grpc/status"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/recorder"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/controllers/apply"
	"github.com/georegister/georegister/controllers/decide"
	"github.com/georegister/georegister/controllers/decide/message"
	"github.com/georegister/georegister/controllers/decide/status"
	"github.com/georegister/georegister/controllers/world"
)

// atOnce is the pause before a cluster is looked at again after a step: its effect is about to be seen.
const atOnce = 250 * time.Millisecond

// Reconciler brings one cluster at a time closer to what its resource asks for.
type Reconciler struct {
	options    Options
	client     client.Client // reads from the cache
	live       client.Reader // reads from the apiserver
	applier    *apply.Applier
	events     recorder.EventRecorder
	optional   *optional
	injections injectionReader
	metrics    *metrics
	silences   silences
	keyed      sync.Map // the UIDs of the clusters whose Secret was seen, by their names
	warnings   warnings
	slots      slots
	election   *election // nil: there is none
	places     bool      // nodes and volumes may be read
	now        func() time.Time
}

// Reconcile observes a cluster, has the next plan decided, and carries it out: objects, one step and its events,
// status. What failed is said in the status too.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	if !r.election.working() { // all are looked at once it is
		return reconcile.Result{}, nil
	}
	r.slots.take()
	defer r.slots.leave()
	cluster := &v1alpha1.GeoRegisterCluster{}
	if err := r.client.Get(ctx, request.NamespacedName, cluster); err != nil {
		if apierrors.IsNotFound(err) {
			r.forget(request)
			return reconcile.Result{}, nil
		}
		return reconcile.Result{}, fmt.Errorf("read the resource: %w", err)
	}
	snapshot, err := r.observe(ctx, cluster)
	if err != nil {
		return reconcile.Result{}, r.unseen(ctx, cluster, fmt.Errorf("observe: %w", err))
	}
	r.metrics.observe(request.NamespacedName, snapshot.Members)
	plan := decide.Next(snapshot)
	r.metrics.observeLinks(request.NamespacedName, plan.Links)
	r.metrics.observePartitions(request.NamespacedName, plan.Status.Partitions)

	done := r.carryOut(ctx, snapshot, plan)
	sayFailure(&plan.Status, cluster.Generation, done)
	emulated := r.applyEmulation(ctx, cluster, &plan)
	told := r.applier.Status(ctx, cluster, plan.Status, snapshot.Now)
	r.eventOf(cluster, "CarryOut", done)
	r.eventOf(cluster, "EmulateNetwork", emulated)
	r.eventOf(cluster, "WriteStatus", told)
	return again(ctx, plan, errors.Join(done, emulated, told))
}

// again says when to look the next time, after what came of a plan.
func again(ctx context.Context, plan decide.Plan, came error) (reconcile.Result, error) {
	switch failure := apply.Failure(came); {
	case failure != nil:
		return reconcile.Result{}, failure
	case errors.Is(came, apply.ErrStale):
		log.FromContext(ctx).Info("Looked again: something changed meanwhile", "cause", came.Error())
		return reconcile.Result{RequeueAfter: atOnce}, nil
	case errors.Is(came, apply.ErrBudget):
		return reconcile.Result{RequeueAfter: plan.Again}, nil
	case plan.Step != nil:
		return reconcile.Result{RequeueAfter: min(atOnce, plan.Again)}, nil
	}
	return reconcile.Result{RequeueAfter: plan.Again}, nil
}

// unseen has the status, and an event, say why the operator can't see how a cluster is.
func (r *Reconciler) unseen(ctx context.Context, cluster *v1alpha1.GeoRegisterCluster, failure error) error {
	if ctx.Err() != nil { // the operator ends
		return failure
	}
	r.eventOf(cluster, "Observe", failure)
	now := cluster.Status.DeepCopy()
	status.Unseen(now, cluster.Generation, reason(failure))
	return errors.Join(failure, r.applier.Status(ctx, cluster, *now, r.now()))
}

// carryOut does what a plan says, but for the status. An object that can't be applied does not keep a member from
// being repaired.
func (r *Reconciler) carryOut(ctx context.Context, s world.Snapshot, plan decide.Plan) error {
	others, failed := r.keys(ctx, s)
	objects := plan.Apply
	if failed != nil { // pods would mount what may be anybody's
		objects = slices.DeleteFunc(slices.Clone(objects), func(o client.Object) bool {
			_, is := o.(*appsv1.StatefulSet)
			return is
		})
	}
	taken, err := r.applier.Apply(ctx, s.Cluster, objects, others...)
	err = errors.Join(failed, err)
	for _, t := range taken {
		r.tellEvents(s.Cluster, message.Warning(message.WhyTaken(t), "Block", message.Taken(s.Cluster, t)))
	}
	if len(taken) > 0 { // the step was decided without knowing that
		return errors.Join(err, fmt.Errorf("%w: %s %s can't be used", apply.ErrStale, taken[0].Kind, taken[0].Name))
	}
	err = errors.Join(
		err,
		r.applier.Prune(ctx, s.Cluster.UID, plan.Prune),
		r.begin(ctx, s, plan.Lives),
	)
	if plan.Step != nil {
		stepped := r.take(ctx, s, plan.Step)
		if stepped != nil {
			return errors.Join(err, stepped)
		}
	}
	r.tellEvents(s.Cluster, plan.Events...)
	return err
}

// tellEvents tells events of a cluster, whatever version of it: the recorder counts the same event of one object, and
// of versions of it apart.
func (r *Reconciler) tellEvents(cluster *v1alpha1.GeoRegisterCluster, events ...message.Event) {
	of := &v1alpha1.GeoRegisterCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: cluster.Namespace, Name: cluster.Name, UID: cluster.UID},
	}
	for _, e := range events {
		r.events.Eventf(of, nil, e.Type, e.Reason, e.Action, "%s", message.Bounded(e.Message))
	}
}

// eventOf tells an event of what could not be done, for the action that it names. That it is tried again and fails
// again is counted by the recorder, and written every few minutes.
func (r *Reconciler) eventOf(cluster *v1alpha1.GeoRegisterCluster, action string, came error) {
	if failure := apply.Failure(came); failure != nil {
		r.tellEvents(cluster,
			message.Warning(status.OperatorFailed, action, "The operator tries again: "+reason(failure)))
	}
}

// forget drops what is kept of a cluster that is no more.
func (r *Reconciler) forget(request reconcile.Request) {
	r.applier.Forget(request.NamespacedName)
	r.keyed.Delete(request.NamespacedName)
	r.options.Members.Forget(request.String())
	r.metrics.forget(request.NamespacedName)
	r.silences.forget(request.NamespacedName)
}

// sayFailure has the status say what the operator could not do. A lost race is no failure, and a budget that does not
// allow an eviction yet is a wait.
func sayFailure(to *v1alpha1.GeoRegisterClusterStatus, generation int64, came error) {
	failure := apply.Failure(came)
	switch {
	case failure != nil:
		status.Failed(to, generation, reason(failure), apply.Refused(failure))
	case errors.Is(came, apply.ErrBudget):
		status.Waits(to, generation, "EvictionRefused", "The operator waits: "+came.Error())
	}
}

// reason is an error without the wrapping of gRPC.
func reason(err error) string {
	if s, ok := grpcstatus.FromError(err); ok && err != nil {
		return fmt.Sprintf("%s (%s)", s.Message(), s.Code())
	}
	return err.Error()
}
