//go:build controlplane

package controlplane

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/georegister/georegister/controllers/chaosmesh"
)

// ChaosMesh stands in, in one namespace, for the controller of Chaos Mesh: it delays nothing, and does to objects what
// the real one does. Pods are chosen once; what can't be undone holds up a deletion; the status is part of the object.
// It refuses what Chaos Mesh can't deal with: two objects for one direction.
type ChaosMesh struct {
	t         *testing.T
	namespace string
	api       client.Client // reads from the apiserver

	mu      sync.Mutex
	stuck   bool                       // deletions make no progress
	deaf    string                     // a pod of which Chaos Mesh never hears that it was undone there
	history map[string][]metav1.Object // that there were, by direction, the first in front
}

// The names that Chaos Mesh uses.
const (
	chaosFinalizer = "chaos-mesh/records"
	chaosManager   = client.FieldOwner("chaos-controller-manager")
	notInjected    = "Not Injected"
	isInjected     = "Injected"
)

// StartChaosMesh runs until the test ends.
func StartChaosMesh(t *testing.T, config *rest.Config, namespace string) *ChaosMesh {
	t.Helper()
	m := &ChaosMesh{t: t, namespace: namespace, api: newClient(t, config), history: map[string][]metav1.Object{}}
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	work.Go(func() { m.run(ctx) })
	t.Cleanup(func() {
		cancel()
		work.Wait()
	})
	return m
}

// Stick has deletions make no progress, or lets them go on.
func (m *ChaosMesh) Stick(stuck bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stuck = stuck
}

// Deafen has deletions wait for a pod for ever, as Chaos Mesh waits for the versions of a pod that is gone if another
// one has its name.
func (m *ChaosMesh) Deafen(pod string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.deaf = m.namespace + "/" + pod
}

func (m *ChaosMesh) run(ctx context.Context) {
	ticker := time.NewTicker(kubeletEvery)
	defer ticker.Stop()
	var last string
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		// Conflicts are ordinary: it looks again.
		if err := m.look(ctx); err != nil && ctx.Err() == nil && err.Error() != last {
			last = err.Error()
			m.t.Logf("Chaos Mesh tries again: %v", err)
		}
	}
}

// All are the objects that there are.
func (m *ChaosMesh) All(ctx context.Context) ([]unstructured.Unstructured, error) {
	list := chaosmesh.EmptyList()
	err := m.api.List(ctx, list, client.InNamespace(m.namespace))
	return list.Items, err
}

func (m *ChaosMesh) look(ctx context.Context) error {
	all, err := m.All(ctx)
	if err != nil {
		return err
	}
	seen := map[string]string{}
	var errs []error
	for i := range all {
		u := &all[i]
		if u.GetLabels()[chaosmesh.FromLabel] == "" { // of somebody who injects something else
			continue
		}
		d := directionOf(u)
		if other := seen[d]; other != "" {
			m.t.Errorf("%s and %s are both for %s: chance decides which of them counts", other, u.GetName(), d)
		}
		seen[d] = u.GetName()
		before := u.DeepCopy()
		if err := m.advance(ctx, u); err != nil {
			errs = append(errs, err)
			continue
		}
		if fmt.Sprint(before.Object) != fmt.Sprint(u.Object) {
			errs = append(errs, client.IgnoreNotFound(m.api.Update(ctx, u, chaosManager)))
		}
	}
	return errors.Join(errs...)
}

func directionOf(u *unstructured.Unstructured) string {
	return u.GetLabels()[chaosmesh.FromLabel] + " to " + u.GetLabels()[chaosmesh.ToLabel]
}

// advance takes an object one step further: its finalizer, its pods, then each of them in two steps.
func (m *ChaosMesh) advance(ctx context.Context, u *unstructured.Unstructured) error {
	records, _, err := unstructured.NestedSlice(u.Object, "status", "experiment", "containerRecords")
	if err != nil {
		return err
	}
	desired := "Run"
	switch {
	case u.GetDeletionTimestamp() != nil:
		desired = "Stop"
		m.mu.Lock()
		stuck, deaf := m.stuck, m.deaf
		m.mu.Unlock()
		if stuck {
			return nil
		}
		if u.GetAnnotations()[chaosmesh.ForceAnnotation] == chaosmesh.Forced {
			u.SetFinalizers(nil)
			return nil
		}
		for _, r := range records {
			r := r.(map[string]any)
			if r["id"] != deaf || r["phase"] != isInjected+"/Wait" {
				step(r, false)
			}
		}
		if !slices.ContainsFunc(records, func(r any) bool { return r.(map[string]any)["phase"] != notInjected }) {
			u.SetFinalizers(nil)
			return nil
		}
	case !slices.Contains(u.GetFinalizers(), chaosFinalizer):
		m.note(u)
		u.SetFinalizers([]string{chaosFinalizer})
		return nil
	case records == nil && conditionOfChaos(u, "Selected") == "":
		return setConditions(u, nil)
	case records == nil:
		if records, err = m.choose(ctx, u); err != nil || records == nil {
			return err
		}
	default:
		for _, r := range records {
			step(r.(map[string]any), true)
		}
	}
	err = errors.Join(
		unstructured.SetNestedField(u.Object, desired, "status", "experiment", "desiredPhase"),
		unstructured.SetNestedSlice(u.Object, records, "status", "experiment", "containerRecords"),
	)
	return errors.Join(err, setConditions(u, records))
}

// note remembers an object that is new.
func (m *ChaosMesh) note(u *unstructured.Unstructured) {
	m.mu.Lock()
	defer m.mu.Unlock()
	d := directionOf(u)
	m.history[d] = append(m.history[d], u.DeepCopy())
}

// History is the objects of a direction that there were, the first in front.
func (m *ChaosMesh) History(from, to string) []metav1.Object {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.history[from+" to "+to])
}

// choose makes the records of the pods that the two selectors find; nil if one of them finds none.
func (m *ChaosMesh) choose(ctx context.Context, u *unstructured.Unstructured) ([]any, error) {
	var records []any
	for key, path := range map[string][]string{".": {"spec", "selector"}, ".Target": {"spec", "target", "selector"}} {
		labels, _, err := unstructured.NestedStringMap(u.Object, append(path, "labelSelectors")...)
		if err != nil {
			return nil, err
		}
		var pods corev1.PodList
		if err := m.api.List(ctx, &pods, client.InNamespace(m.namespace), client.MatchingLabels(labels)); err != nil {
			return nil, err
		}
		found := 0
		for _, pod := range pods.Items {
			if pod.Status.Phase != corev1.PodRunning {
				continue
			}
			found++
			records = append(records, map[string]any{
				"id": m.namespace + "/" + pod.Name, "selectorKey": key, "phase": notInjected, "injectedCount": int64(0),
				"recoveredCount": int64(0),
			})
		}
		if found == 0 {
			return nil, nil
		}
	}
	return records, nil
}

// step takes a record one phase further on its way.
func step(record map[string]any, apply bool) {
	done, goal, operation := notInjected, isInjected, "Apply"
	if !apply {
		done, goal, operation = isInjected, notInjected, "Recover"
	}
	switch phase := record["phase"].(string); {
	case phase == goal:
	case strings.HasSuffix(phase, "/Wait"):
		record["phase"] = goal
		record["events"] = []any{map[string]any{
			"type": "Succeeded", "operation": operation, "timestamp": time.Now().UTC().Format(time.RFC3339),
		}}
	default:
		record["phase"] = done + "/Wait"
	}
}

func setConditions(u *unstructured.Unstructured, records []any) error {
	all := func(phase string) string {
		if records == nil ||
			slices.ContainsFunc(records, func(r any) bool { return r.(map[string]any)["phase"] != phase }) {
			return "False"
		}
		return "True"
	}
	selected := "False"
	if records != nil {
		selected = "True"
	} else if err := unstructured.SetNestedField(u.Object, "Run", "status", "experiment", "desiredPhase"); err != nil {
		return err
	}
	var conditions []any
	for kind, status := range map[string]string{
		"Selected": selected, "AllInjected": all(isInjected), "AllRecovered": all(notInjected), "Paused": "False",
	} {
		conditions = append(conditions, map[string]any{"type": kind, "status": status})
	}
	slices.SortFunc(conditions, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	return unstructured.SetNestedSlice(u.Object, conditions, "status", "conditions")
}

func conditionOfChaos(u *unstructured.Unstructured, kind string) string {
	conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions") // absent: none
	for _, c := range conditions {
		if c.(map[string]any)["type"] == kind {
			return c.(map[string]any)["status"].(string)
		}
	}
	return ""
}
