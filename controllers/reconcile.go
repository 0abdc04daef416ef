package controllers

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/controllers/apply"
	"github.com/georegister/georegister/controllers/decide"
	"github.com/georegister/georegister/controllers/decide/status"
)

// atOnce is the pause before a cluster is looked at again after a step: its effect is about to be seen.
const atOnce = 250 * time.Millisecond

// Reconciler brings one cluster at a time closer to what its resource asks for.
type Reconciler struct {
	*access
	observer observer
	executor executor
	metrics  *metrics
	election *election // nil: there is none
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
	snapshot, err := r.observer.observe(ctx, cluster)
	if err != nil {
		return reconcile.Result{}, r.unseen(ctx, cluster, fmt.Errorf("observe: %w", err))
	}
	r.metrics.countMembers(request.NamespacedName, snapshot.Members)
	plan := decide.Next(snapshot)
	r.metrics.setLinks(request.NamespacedName, plan.Links)
	r.metrics.countPartitions(request.NamespacedName, plan.Status.Partitions)

	done := r.executor.carryOut(ctx, snapshot, plan)
	sayFailure(&plan.Status, cluster.Generation, done)
	emulated := r.executor.applyEmulation(ctx, cluster, &plan)
	told := r.applier.Status(ctx, cluster, plan.Status, snapshot.Now)
	r.executor.events.failed(cluster, "CarryOut", done)
	r.executor.events.failed(cluster, "EmulateNetwork", emulated)
	r.executor.events.failed(cluster, "WriteStatus", told)
	return again(ctx, plan, errors.Join(done, emulated, told))
}

// again says when to look the next time, after what came of a plan.
func again(ctx context.Context, plan decide.Plan, came error) (reconcile.Result, error) {
	switch failure := apply.Failure(came); {
	case failure != nil:
		return reconcile.Result{}, failure
	case errors.Is(came, apply.ErrStale):
		log.FromContext(ctx).Info("Looked again: something changed meanwhile", "reason", came.Error())
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
	r.executor.events.failed(cluster, "Observe", failure)
	seen := cluster.Status.DeepCopy()
	status.Unseen(seen, cluster.Generation, reason(failure))
	return errors.Join(failure, r.applier.Status(ctx, cluster, *seen, r.now()))
}

// forget drops what is kept of a cluster that is no more.
func (r *Reconciler) forget(request reconcile.Request) {
	r.applier.Forget(request.NamespacedName)
	r.executor.keyed.Delete(request.NamespacedName)
	r.options.Members.Forget(request.String())
	r.metrics.forget(request.NamespacedName)
	r.observer.silences.forget(request.NamespacedName)
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
