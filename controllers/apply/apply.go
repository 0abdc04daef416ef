// Package apply brings what was decided into the apiserver, without a request where nothing would change, and so
// that somebody with an older plan does no harm.
package apply

import (
	"context"
	"errors"
	"fmt"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/georegister/georegister/controllers/wan"
)

// Owner is the field manager of all that the operator writes.
const Owner = client.FieldOwner("georegister")

// Applier applies objects. It remembers what it applied last for every cluster, so that a cluster at rest costs
// no requests; a restart of the operator forgets that, which costs one request per object.
type Applier struct {
	client client.Client // whose reads come from a cache

	mu   sync.Mutex
	last map[types.NamespacedName]map[identity]application
}

// identity names an object within the namespace of its cluster.
type identity struct {
	kind schema.GroupVersionKind
	name string
}

// application is what is remembered of one apply.
type application struct {
	desired string // the hash of what was asked for
	result  stamp  // of the object that came of it
	refused string // why it was not taken; then it is tried again
}

// New returns an applier that remembers nothing yet.
func New(c client.Client) *Applier {
	return &Applier{client: c, last: map[types.NamespacedName]map[identity]application{}}
}

// Apply applies the desired objects of a cluster by server-side apply, with force, except those that are known
// to be as desired. What others change about an owned field is undone. The objects are left as they are. All are
// tried; the error joins those of the ones that failed.
func (a *Applier) Apply(ctx context.Context, cluster types.NamespacedName, objects []client.Object) error {
	a.mu.Lock()
	before := a.last[cluster]
	a.mu.Unlock()
	after := make(map[identity]application, len(objects))
	var errs []error
	for _, object := range objects {
		id := identity{object.GetObjectKind().GroupVersionKind(), object.GetName()}
		applied, err := a.apply(ctx, object, before[id])
		if err != nil {
			what := fmt.Sprintf("apply %s %s", id.kind.Kind, id.name)
			if apierrors.IsConflict(err) {
				errs = append(errs, explain(what, err))
			} else {
				errs = append(errs, fmt.Errorf("%s: %w", what, err))
			}
			applied = application{}
			if apierrors.IsForbidden(err) || apierrors.IsInvalid(err) {
				applied.refused = err.Error()
			}
		}
		after[id] = applied
	}
	a.mu.Lock()
	a.last[cluster] = after // what is not desired any more is forgotten
	a.mu.Unlock()
	return errors.Join(errs...)
}

// Refused is why the apiserver refused an object of a cluster, if it did so when the object was applied last, else
// empty.
func (a *Applier) Refused(cluster types.NamespacedName, kind schema.GroupVersionKind, name string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.last[cluster][identity{kind, name}].refused
}

// Forget drops what is remembered of a cluster.
func (a *Applier) Forget(cluster types.NamespacedName) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.last, cluster)
}

func (a *Applier) apply(ctx context.Context, object client.Object, last application) (application, error) {
	desired, err := intent(object)
	if err != nil {
		return last, err
	}
	hash, err := hashOf(desired)
	if err != nil {
		return last, err
	}
	live, err := a.live(ctx, object)
	if err != nil {
		return last, err
	}
	if live != nil {
		if hash == last.desired && last.result.covers(stampOf(live)) || !live.GetDeletionTimestamp().IsZero() {
			return last, nil
		}
		// If it is gone by now, it is not to be made again before that was looked at.
		desired.SetUID(live.GetUID())
	}
	if seen := object.GetUID(); seen != "" { // by whoever decided: a volume that is lost must not be made again
		desired.SetUID(seen)
	}
	// Reads are of typed objects or of metadata alone, and these writes are neither: waiting for a cache of
	// untyped objects would be waiting for one more cache.
	err = a.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(desired), Owner, client.ForceOwnership,
		client.DisableReadYourWritesConsistency)
	if err != nil {
		return last, err
	}
	return application{desired: hash, result: stampOf(desired)}, nil
}

// live is the object as the cache has it, or nil. Kinds of which more than the metadata is read anywhere are read
// whole here too, so that there is one cache of each kind.
func (a *Applier) live(ctx context.Context, object client.Object) (client.Object, error) {
	live := Cached(object.GetObjectKind().GroupVersionKind())
	err := a.client.Get(ctx, client.ObjectKeyFromObject(object), live)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return live, err
}

// Cached is an empty object of a kind in the form in which the operator caches it: whole for those whose content
// decides something, else metadata alone.
func Cached(kind schema.GroupVersionKind) client.Object {
	switch kind.GroupKind() {
	case schema.GroupKind{Kind: "ConfigMap"}:
		return &corev1.ConfigMap{}
	case schema.GroupKind{Kind: "PersistentVolumeClaim"}:
		return &corev1.PersistentVolumeClaim{}
	case schema.GroupKind{Kind: "Pod"}:
		return &corev1.Pod{}
	case schema.GroupKind{Group: "apps", Kind: "StatefulSet"}:
		return &appsv1.StatefulSet{}
	}
	if kind == wan.Kind {
		return wan.Empty()
	}
	metadata := &metav1.PartialObjectMetadata{}
	metadata.SetGroupVersionKind(kind)
	return metadata
}
