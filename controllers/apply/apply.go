// Package apply brings what was decided into the apiserver, without a request where nothing would change, and so
// that somebody with an older plan does no harm.
package apply

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/controllers/build"
	"github.com/georegister/georegister/controllers/chaosmesh"
	"github.com/georegister/georegister/controllers/world"
)

// Owner is the field manager of all that the operator writes.
const Owner = client.FieldOwner("georegister")

// Applier applies objects. It remembers what it applied last for every cluster, so that a cluster at rest costs
// no requests; a restart of the operator forgets that, which costs one request per object.
type Applier struct {
	client client.Client // whose reads come from a cache
	direct client.Reader // whose reads come from the apiserver: what is not the operator's is in no cache

	last sync.Map // of map[identity]application, by the name of the cluster; none is changed once it is there
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
	taken   *world.Taken
	unsure  bool // the latest attempt failed before it was known whose the object is
}

// Absent is the resource version of no object: a write with it makes one, or is refused since there is one.
const Absent = "1"

// New returns an applier that remembers nothing yet. The second one reads from the apiserver itself.
func New(c client.Client, direct client.Reader) *Applier {
	return &Applier{client: c, direct: direct}
}

// applied is what is remembered of the objects of a cluster.
func (a *Applier) applied(cluster types.NamespacedName) map[identity]application {
	all, _ := a.last.Load(cluster)
	found, _ := all.(map[identity]application)
	return found
}

// Apply applies the desired objects of a cluster by server-side apply, with force, except those that are known
// to be as desired. What others change about an owned field is undone. The objects are left as they are. All are
// tried; the error joins those of the ones that failed.
//
// An object that exists and is not the cluster's is left alone, and so is the StatefulSet whose pods would use it.
// Those that were not known before are returned; Taken tells all. Others are such objects that were found elsewhere, of
// the core group.
func (a *Applier) Apply(
	ctx context.Context, cluster *v1alpha1.GeoRegisterCluster, objects []client.Object, others ...world.Taken,
) (fresh []world.Taken, err error) {
	key := client.ObjectKeyFromObject(cluster)
	before := a.applied(key)
	after := make(map[identity]application, len(objects))
	for _, other := range others {
		id := identity{corev1.SchemeGroupVersion.WithKind(other.Kind), other.Name}
		if before[id].taken == nil {
			fresh = append(fresh, other)
		}
		after[id] = application{taken: &other}
	}
	var errs []error
	for _, object := range objects {
		id := identity{object.GetObjectKind().GroupVersionKind(), object.GetName()}
		if set, ok := object.(*appsv1.StatefulSet); ok && hold(set, after) {
			after[id] = before[id]
			continue
		}
		applied, err := a.apply(ctx, cluster, object, before[id])
		if err != nil {
			what := fmt.Sprintf("apply %s %s", id.kind.Kind, id.name)
			if apierrors.IsConflict(err) {
				errs = append(errs, explain(what, err))
			} else {
				errs = append(errs, fmt.Errorf("%s: %w", what, err))
			}
			applied = application{unsure: applied.unsure}
			if applied.unsure {
				applied.taken = before[id].taken
			}
			if apierrors.IsForbidden(err) || apierrors.IsInvalid(err) {
				applied.refused = err.Error()
			}
		}
		if applied.taken != nil && before[id].taken == nil {
			fresh = append(fresh, *applied.taken)
		}
		after[id] = applied
	}
	a.last.Store(key, after) // what is not desired any more is forgotten
	return fresh, errors.Join(errs...)
}

// hold reports whether pods of a StatefulSet would use an object that is somebody else's, or may be, or go without the
// NetworkPolicy whose name is taken, and notes that of the object.
func hold(set *appsv1.StatefulSet, all map[identity]application) (held bool) {
	pod := set.Spec.Template.Spec
	uses := map[string]bool{"Service " + set.Spec.ServiceName: true, "ServiceAccount " + pod.ServiceAccountName: true}
	for _, v := range pod.Volumes {
		switch {
		case v.ConfigMap != nil:
			uses["ConfigMap "+v.ConfigMap.Name] = true
		case v.Secret != nil:
			uses["Secret "+v.Secret.SecretName] = true
		case v.PersistentVolumeClaim != nil:
			uses["PersistentVolumeClaim "+v.PersistentVolumeClaim.ClaimName] = true
		}
	}
	for id, applied := range all { // order is irrelevant: each is looked at
		used := uses[id.kind.Kind+" "+id.name] || id.kind.Kind == "NetworkPolicy"
		if !used || applied.taken == nil && !applied.unsure {
			continue
		}
		held = true
		if applied.taken != nil {
			applied.taken.Pods = id.kind.Kind != "PersistentVolumeClaim" // which is one member's
		}
	}
	return held
}

// Taken are the objects of others that stood in the way when the objects of a cluster were applied last, in the order
// of their kinds and names.
func (a *Applier) Taken(cluster types.NamespacedName) (all []world.Taken) {
	for _, applied := range a.applied(cluster) { // sorted below
		if applied.taken != nil {
			all = append(all, *applied.taken)
		}
	}
	slices.SortFunc(all, func(a, b world.Taken) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
	return all
}

// Refused is why the apiserver refused an object of a cluster, if it did so when the object was applied last, else
// empty.
func (a *Applier) Refused(cluster types.NamespacedName, kind schema.GroupVersionKind, name string) string {
	return a.applied(cluster)[identity{kind, name}].refused
}

// Forget drops what is remembered of a cluster.
func (a *Applier) Forget(cluster types.NamespacedName) { a.last.Delete(cluster) }

func (a *Applier) apply(
	ctx context.Context, cluster *v1alpha1.GeoRegisterCluster, object client.Object, last application,
) (application, error) {
	last.unsure = false
	desired, err := intent(object)
	if err != nil {
		return last, err
	}
	hash := hashOf(desired)
	live, err := a.live(ctx, object)
	if err != nil {
		return last, err
	}
	if live == nil {
		if live, err = a.look(ctx, object); err != nil {
			last.unsure = true
			return last, err
		}
	}
	switch {
	case live == nil:
		desired.SetResourceVersion(Absent)
	case !build.Owns(cluster, live, object.GetAnnotations()[build.ClusterIDAnnotation]):
		kind := object.GetObjectKind().GroupVersionKind().Kind
		stored := metav1.GetControllerOfNoCopy(live) == nil && live.GetAnnotations()[build.ClusterIDAnnotation] != ""
		return application{
			taken: &world.Taken{Kind: kind, Name: object.GetName(), Whose: build.Whose(live), Stored: stored},
		}, nil
	case hash == last.desired && last.result.covers(stampOf(live)) || !live.GetDeletionTimestamp().IsZero():
		return last, nil
	default:
		// If it is gone by now, it is not to be made again before that was looked at.
		desired.SetUID(live.GetUID())
	}
	if seen := object.GetUID(); seen != "" { // by whoever decided: a volume that is lost must not be made again
		desired.SetUID(seen)
	}
	if err := a.write(ctx, desired); err != nil {
		last.unsure = live == nil // somebody else may have made it meanwhile
		return last, err
	}
	return application{desired: hash, result: stampOf(desired)}, nil
}

// write is a server-side apply with force. Reads are of typed objects or of metadata alone, and these writes are
// neither: waiting for a cache of untyped objects would be waiting for one more cache.
func (a *Applier) write(ctx context.Context, desired *unstructured.Unstructured) error {
	return a.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(desired), Owner, client.ForceOwnership,
		client.DisableReadYourWritesConsistency)
}

// look asks the apiserver itself for an object that no cache has: one that is not labelled as the operator's. It
// returns its metadata, or nil.
func (a *Applier) look(ctx context.Context, object client.Object) (client.Object, error) {
	there := &metav1.PartialObjectMetadata{}
	there.SetGroupVersionKind(object.GetObjectKind().GroupVersionKind())
	found, err := get(ctx, a.direct, object, there)
	if err != nil {
		return nil, fmt.Errorf("look whether it is there: %w", err)
	}
	return found, nil
}

// get reads an object into one of its form; nil if it is not there.
func get(ctx context.Context, reader client.Reader, object, into client.Object) (client.Object, error) {
	err := reader.Get(ctx, client.ObjectKeyFromObject(object), into)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return into, err
}

// live is the object as the cache has it, or nil. Kinds of which more than the metadata is read anywhere are read
// whole here too, so that there is one cache of each kind.
func (a *Applier) live(ctx context.Context, object client.Object) (client.Object, error) {
	return get(ctx, a.client, object, Cached(object.GetObjectKind().GroupVersionKind()))
}

// whole are the kinds whose content decides something.
var whole = map[schema.GroupKind]client.Object{
	{Kind: "ConfigMap"}:                  &corev1.ConfigMap{},
	{Kind: "PersistentVolumeClaim"}:      &corev1.PersistentVolumeClaim{},
	{Kind: "Pod"}:                        &corev1.Pod{},
	{Group: "apps", Kind: "StatefulSet"}: &appsv1.StatefulSet{},
	chaosmesh.Kind.GroupKind():           chaosmesh.Empty(),
}

// Cached is an empty object of a kind in the form in which the operator caches it: whole for those whose content
// decides something, else metadata alone.
func Cached(kind schema.GroupVersionKind) client.Object {
	if empty, ok := whole[kind.GroupKind()]; ok {
		return empty.DeepCopyObject().(client.Object)
	}
	metadata := &metav1.PartialObjectMetadata{}
	metadata.SetGroupVersionKind(kind)
	return metadata
}
