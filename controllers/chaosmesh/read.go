package chaosmesh

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	chaos "github.com/chaos-mesh/chaos-mesh/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/georegister/georegister/controllers/world"
)

// PauseAnnotation pauses an object of Chaos Mesh.
const PauseAnnotation = chaos.PauseAnnotationKey

// ForceAnnotation on an object that is being deleted, with the value Forced, has Chaos Mesh let it go though its rules
// could not be removed.
const (
	ForceAnnotation = "chaos-mesh.chaos-mesh.org/cleanFinalizer"
	Forced          = "forced"
)

// undone is the phase of a pod whose rules were taken back in Chaos Mesh's own record of that pod, whose generation it
// then waits for (controllers/chaosimpl/networkchaos/trafficcontrol of Chaos Mesh).
const undone chaos.Phase = "Injected/Wait"

// Empty is an object without content, in the form in which objects are cached: what a newer Chaos Mesh writes in them
// must not end a watch.
func Empty() *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(Kind)
	return u
}

// EmptyList is a list of such objects.
func EmptyList() *unstructured.UnstructuredList {
	u := &unstructured.UnstructuredList{}
	u.SetGroupVersionKind(Kind.GroupVersion().WithKind(Kind.Kind + "List"))
	return u
}

// IsObject reports whether something is an object of the kind that is used, in the form in which it is cached.
func IsObject(object any) bool {
	u, ok := object.(*unstructured.Unstructured)
	return ok && u.GroupVersionKind() == Kind
}

// Strip takes from an object what is not read, for a cache.
func Strip(u *unstructured.Unstructured) {
	u.SetManagedFields(nil)
	kept := u.GetAnnotations()
	maps.DeleteFunc(kept, func(key, _ string) bool { return key != PauseAnnotation && key != ForceAnnotation })
	u.SetAnnotations(kept)
	delete(u.Object, "spec")
	unstructured.RemoveNestedField(u.Object, "status", "instances")
}

// Read says what an object tells. One whose status can't be read has a problem.
func Read(u *unstructured.Unstructured) world.Injection {
	i := world.Injection{
		Name: u.GetName(), UID: u.GetUID(), From: u.GetLabels()[FromLabel], To: u.GetLabels()[ToLabel],
		Created: u.GetCreationTimestamp().Time, Forced: u.GetAnnotations()[ForceAnnotation] == Forced,
	}
	if t := u.GetDeletionTimestamp(); t != nil {
		i.Deleting = t.Time
	}
	var content struct {
		Status chaos.NetworkChaosStatus `json:"status"`
	}
	status, _ := u.Object["status"].(map[string]any)
	err := runtime.DefaultUnstructuredConverter.FromUnstructured(map[string]any{"status": status}, &content)
	if err != nil {
		i.Problem = fmt.Sprintf("its status can't be read: %v", err)
		return i
	}
	i.Looked = content.Status.Experiment.Records != nil
	for _, c := range content.Status.Conditions {
		switch c.Type {
		case chaos.ConditionSelected:
			i.Looked = true
		case chaos.ConditionAllInjected:
			i.AllInjected = c.Status == corev1.ConditionTrue
		}
	}
	readRecords(&i, content.Status.Experiment.Records)
	if u.GetAnnotations()[PauseAnnotation] == "true" {
		i.Problem = "it is paused by its annotation " + PauseAnnotation
	}
	return i
}

// readRecords reads which pods were chosen, and how far each is. A pod has a record for every part that it plays.
func readRecords(i *world.Injection, records []*chaos.Record) {
	done := map[string]bool{}
	for _, r := range records {
		if r == nil {
			continue
		}
		_, pod, _ := strings.Cut(r.Id, "/") // namespace/name
		before, seen := done[pod]
		done[pod] = r.Phase == chaos.Injected && (before || !seen)
		switch r.Phase {
		case undone:
			i.Unconfirmed = append(i.Unconfirmed, world.Undoing{Pod: pod, Applied: applied(r.Events)})
		case chaos.NotInjected:
		default:
			i.Held = true
		}
		if n := len(r.Events); n > 0 {
			switch last := r.Events[n-1]; {
			case last.Type == chaos.TypeFailed && r.Phase != chaos.Injected && i.Problem == "":
				i.Problem = fmt.Sprintf("pod %s: %s", pod, last.Message)
			case last.Timestamp != nil && last.Timestamp.After(i.Since):
				i.Since = last.Timestamp.Time
			}
		}
	}
	i.Chosen = slices.Sorted(maps.Keys(done))
	for _, pod := range i.Chosen {
		if done[pod] {
			i.Injected = append(i.Injected, pod)
		}
	}
}

// applied is when Chaos Mesh last succeeded in a pod.
func applied(events []chaos.RecordEvent) (last time.Time) {
	for _, e := range events {
		if e.Operation == chaos.Apply && e.Type == chaos.TypeSucceeded && e.Timestamp != nil {
			last = e.Timestamp.Time
		}
	}
	return last
}

// Reference names an object of a namespace that was read, for its removal.
func Reference(namespace string, i world.Injection) *unstructured.Unstructured {
	u := Empty()
	u.SetNamespace(namespace)
	u.SetName(i.Name)
	u.SetUID(i.UID)
	return u
}

// Release is a patch that has Chaos Mesh let go of an object, if it still is the one that was read.
func Release(namespace string, i world.Injection) *unstructured.Unstructured {
	u := Reference(namespace, i)
	u.SetAnnotations(map[string]string{ForceAnnotation: Forced})
	return u
}
