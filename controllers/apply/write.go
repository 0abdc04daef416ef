package apply

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/controllers/build"
	"github.com/georegister/georegister/controllers/world"
)

// Record writes the record of a view by compare-and-swap: it replaces the object with the given UID and resource
// version, or, without a UID, creates it. ErrStale says that the record is another one by now.
func (a *Applier) Record(ctx context.Context, record *corev1.ConfigMap, uid types.UID, resourceVersion string) error {
	var err error
	if uid == "" {
		err = a.client.Create(ctx, record, Owner)
	} else {
		record.UID, record.ResourceVersion = uid, resourceVersion
		err = a.client.Update(ctx, record, Owner)
	}
	return explain("write record "+record.Name, err)
}

// Secret makes a Secret. ErrStale says that there is one by now.
func (a *Applier) Secret(ctx context.Context, secret *corev1.Secret) error {
	// To wait until its cache has what it wrote, the client would list all Secrets.
	return explain("make Secret "+secret.Name,
		a.client.Create(ctx, secret, Owner, client.DisableReadYourWritesConsistency))
}

// Delete deletes objects, each only if it is still the one that was looked at: its UID and resource version are
// preconditions. One that is gone already is fine.
func (a *Applier) Delete(ctx context.Context, objects ...client.Object) error {
	return each("delete", objects, func(object client.Object) error {
		uid, revision := object.GetUID(), object.GetResourceVersion()
		if uid == "" || revision == "" {
			return errUnseen
		}
		return a.client.Delete(ctx, object, client.Preconditions{UID: &uid, ResourceVersion: &revision},
			client.PropagationPolicy(metav1.DeletePropagationBackground))
	})
}

// errUnseen says that an object to be deleted was never looked at, so that it could be another one.
var errUnseen = errors.New("it was never looked at")

// each does something to all of the objects. One that is gone already is fine.
func each(what string, objects []client.Object, do func(client.Object) error) error {
	var errs []error
	for _, object := range objects {
		if err := do(object); !apierrors.IsNotFound(err) {
			errs = append(errs, explain(what+" "+object.GetName(), err))
		}
	}
	return errors.Join(errs...)
}

// Make makes objects by server-side apply, each complete: one that is there already is left as it is. Those of another
// controller, or of none, that are in the place are returned. All are tried.
func (a *Applier) Make(ctx context.Context, objects ...client.Object) (taken []world.Taken, err error) {
	var errs []error
	for _, object := range objects {
		kind := object.GetObjectKind().GroupVersionKind().Kind
		there, err := a.make(ctx, object)
		errs = append(errs, explain(fmt.Sprintf("make %s %s", kind, object.GetName()), err))
		if owner := metav1.GetControllerOfNoCopy(object); there != nil && (owner == nil || !ownedBy(there, owner.UID)) {
			taken = append(taken, world.Taken{Kind: kind, Name: object.GetName(), Whose: build.Whose(there)})
		}
	}
	return taken, errors.Join(errs...)
}

// make makes an object, or returns the one that is there.
func (a *Applier) make(ctx context.Context, object client.Object) (there client.Object, err error) {
	if there, err = a.look(ctx, object); there != nil || err != nil {
		return there, err
	}
	desired, err := intent(object)
	if err != nil {
		return nil, err
	}
	desired.SetResourceVersion(Absent)
	return nil, a.write(ctx, desired)
}

// Remove deletes objects, each only if it has the UID that was looked at: what it says of itself may have changed. One
// that is gone already is fine. All are tried.
func (a *Applier) Remove(ctx context.Context, objects ...client.Object) error {
	return each("remove", objects, func(object client.Object) error {
		uid := object.GetUID()
		if uid == "" {
			return errUnseen
		}
		return a.client.Delete(ctx, object, client.Preconditions{UID: &uid}, client.DisableReadYourWritesConsistency)
	})
}

// Annotate sets the annotations that objects have, each only on the one that has the UID that was looked at. One that
// is gone is fine. All are tried.
func (a *Applier) Annotate(ctx context.Context, objects ...client.Object) error {
	return each("annotate", objects, func(object client.Object) error {
		patch, err := json.Marshal(
			map[string]any{"metadata": map[string]any{"uid": object.GetUID(), "annotations": object.GetAnnotations()}})
		if err == nil {
			err = a.client.Patch(ctx, object, client.RawPatch(types.MergePatchType, patch), Owner)
		}
		if apierrors.IsConflict(err) { // another one has its name
			return nil
		}
		return err
	})
}

// Evict deletes a pod if it is still the one that was looked at, and if its disruption budget allows that, which the
// apiserver judges. ErrBudget says that it does not for now.
func (a *Applier) Evict(ctx context.Context, pod *corev1.Pod) error {
	uid, revision := pod.UID, pod.ResourceVersion
	if uid == "" || revision == "" {
		return explain("evict pod "+pod.Name, errUnseen)
	}
	err := a.client.SubResource("eviction").Create(ctx, pod, &policyv1.Eviction{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
		DeleteOptions: &metav1.DeleteOptions{
			Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &revision},
		},
	}, Owner)
	switch cause, ok := apierrors.StatusCause(err, policyv1.DisruptionBudgetCause); {
	case apierrors.IsNotFound(err): // it is gone already
		return nil
	case apierrors.IsTooManyRequests(err) && ok:
		return fmt.Errorf("evict pod %s: %w: %s", pod.Name, ErrBudget, cause.Message)
	}
	return explain("evict pod "+pod.Name, err)
}

// Prune deletes those of the objects that exist and belong to a cluster. They are named by kind and name.
func (a *Applier) Prune(ctx context.Context, owner types.UID, objects []client.Object) error {
	var errs []error
	for _, object := range objects {
		live, err := a.live(ctx, object)
		if err != nil {
			errs = append(errs, fmt.Errorf("look for %s: %w", object.GetName(), err))
			continue
		}
		if live != nil && live.GetDeletionTimestamp().IsZero() && ownedBy(live, owner) {
			errs = append(errs, a.Delete(ctx, live))
		}
	}
	return errors.Join(errs...)
}

func ownedBy(object client.Object, owner types.UID) bool {
	controller := metav1.GetControllerOfNoCopy(object)
	return controller != nil && controller.UID == owner
}

// Status writes the status of a cluster, if it says something new. Conditions whose status is unchanged keep their
// time, the others get the one given. Nothing else of the resource is ever written.
func (a *Applier) Status(
	ctx context.Context, cluster *v1alpha1.GeoRegisterCluster, status v1alpha1.GeoRegisterClusterStatus, now time.Time,
) error {
	stampTimes(status.Conditions, cluster.Status.Conditions, metav1.NewTime(now))
	if equality.Semantic.DeepEqual(status, cluster.Status) {
		return nil
	}
	update := cluster.DeepCopy()
	update.Status = status
	return explain("write status of "+cluster.Name, a.client.Status().Update(ctx, update, Owner))
}

// stampTimes gives conditions the time of the last change of their status.
func stampTimes(conditions, before []metav1.Condition, now metav1.Time) {
	for i := range conditions {
		conditions[i].LastTransitionTime = now
		old := meta.FindStatusCondition(before, conditions[i].Type)
		if old != nil && old.Status == conditions[i].Status {
			conditions[i].LastTransitionTime = old.LastTransitionTime
		}
	}
}
