package chaosmesh

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/georegister/georegister/controllers/world"
)

// seen is an object as Chaos Mesh leaves it, with a status of the test's.
func seen(t *testing.T, status string) *unstructured.Unstructured {
	t.Helper()
	cluster := load(t, "links")
	u := Object(cluster, siteOf(cluster, 2), siteOf(cluster, 1))
	u.SetUID("u")
	u.SetAnnotations(map[string]string{"other": "x"})
	u.Object["metadata"].(map[string]any)["creationTimestamp"] = "2026-01-01T00:00:00Z"
	text, err := yaml.YAMLToJSON([]byte(status))
	if err != nil {
		t.Fatal(err)
	}
	var content map[string]any
	if err := json.Unmarshal(text, &content); err != nil {
		t.Fatal(err)
	}
	if content != nil {
		u.Object["status"] = content
	}
	return u
}

func at(second int) time.Time { return time.Date(2026, 1, 1, 0, 0, second, 0, time.UTC) }

const (
	begun    = `conditions: [{type: Selected, status: "False"}, {type: AllInjected, status: "False"}]`
	injected = `
conditions: [{type: Selected, status: "True"}, {type: AllInjected, status: "True"}, {type: Paused, status: "False"}]
experiment:
  desiredPhase: Run
  containerRecords:
  - {id: stores/b-0, selectorKey: .Target, phase: Injected, injectedCount: 1, recoveredCount: 0, events: [{type: Succeeded, operation: Apply, timestamp: "2026-01-01T00:00:02Z"}]}
  - {id: stores/a-0, selectorKey: ., phase: Injected, injectedCount: 1, recoveredCount: 0, events: [
      {type: Failed, operation: Apply, message: "no such container", timestamp: "2026-01-01T00:00:03Z"},
      {type: Succeeded, operation: Apply, timestamp: "2026-01-01T00:00:05Z"}]}
instances: {stores/a-0: 2}
`
	waiting = `
conditions: [{type: Selected, status: "True"}, {type: AllInjected, status: "False"}]
experiment:
  desiredPhase: Stop
  containerRecords:
  - {id: stores/b-0, selectorKey: .Target, phase: Not Injected, injectedCount: 1, recoveredCount: 1, events: [
      {type: Succeeded, operation: Apply, timestamp: "2026-01-01T00:00:02Z"}, {type: Succeeded, operation: Recover, timestamp: "2026-01-01T00:00:08Z"}]}
  - {id: stores/a-0, selectorKey: ., phase: Injected/Wait, injectedCount: 1, recoveredCount: 0, events: [
      {type: Failed, operation: Apply, message: "no such container", timestamp: "2026-01-01T00:00:03Z"},
      {type: Succeeded, operation: Apply, timestamp: "2026-01-01T00:00:05Z"}]}
instances: {stores/a-0: 21}
`
	failing = `
conditions: [{type: Selected, status: "True"}, {type: AllInjected, status: "False"}]
experiment:
  containerRecords:
  - {id: stores/b-0, selectorKey: .Target, phase: Injected, injectedCount: 1, recoveredCount: 0}
  - {id: stores/a-0, selectorKey: ., phase: Not Injected/Wait, injectedCount: 0, recoveredCount: 0, events: [{type: Failed, operation: Apply, message: "no sch_netem", timestamp: "2026-01-01T00:00:03Z"}]}
`
)

func TestWhatObjectsSay(t *testing.T) {
	base := world.Injection{UID: "u", From: "tokyo", To: "new-york", Created: at(0)}
	for name, tt := range map[string]struct {
		status string
		want   func(*world.Injection)
		wrong  string // its problem begins so
	}{
		"nobody has seen it":    {"", func(*world.Injection) {}, ""},
		"no pod was chosen yet": {begun, func(i *world.Injection) { i.Looked = true }, ""},
		"it is in place": {injected, func(i *world.Injection) {
			i.Looked, i.AllInjected, i.Chosen, i.Injected, i.Since = true, true, []string{"a-0", "b-0"},
				[]string{"a-0", "b-0"}, at(5)
			i.Held = true
		}, ""},
		"it was undone in a pod that does not say so": {waiting, func(i *world.Injection) {
			i.Looked, i.Chosen, i.Since = true, []string{"a-0", "b-0"}, at(8)
			i.Unconfirmed = []world.Undoing{{Pod: "a-0", Applied: at(5)}}
		}, ""},
		"a pod can't be reached": {failing, func(i *world.Injection) {
			i.Looked, i.Chosen, i.Injected = true, []string{"a-0", "b-0"}, []string{"b-0"}
			i.Held = true
		}, "pod a-0: no sch_netem"},
		"a pod plays both parts": {`experiment: {containerRecords: [{id: stores/a-0, selectorKey: ., phase: Not Injected, injectedCount: 0, recoveredCount: 0}, {id: stores/a-0, selectorKey: .Target, phase: Injected, injectedCount: 0, recoveredCount: 0}]}`,
			func(i *world.Injection) { i.Looked, i.Chosen, i.Held = true, []string{"a-0"}, true }, ""},
		"its status is another kind's": {`{conditions: {}}`, func(*world.Injection) {}, "its status can't be read: "},
	} {
		for _, stripped := range []bool{false, true} {
			u := seen(t, tt.status)
			if stripped {
				Strip(u)
			}
			got, want := Read(u), base
			tt.want(&want)
			want.Name = u.GetName()
			if want.Problem = got.Problem; tt.wrong == "" && got.Problem != "" ||
				!strings.HasPrefix(got.Problem, tt.wrong) {
				t.Errorf("%s: its problem is %q, want %q", name, got.Problem, tt.wrong)
			}
			got.Since, got.Created = got.Since.UTC(), got.Created.UTC()
			for n := range got.Unconfirmed {
				got.Unconfirmed[n].Applied = got.Unconfirmed[n].Applied.UTC()
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%s (stripped: %v):\n%+v, want\n%+v", name, stripped, got, want)
			}
		}
	}
	paused := seen(t, injected)
	paused.SetAnnotations(map[string]string{PauseAnnotation: "true", "other": "x"})
	Strip(paused)
	if got := Read(paused); !strings.Contains(got.Problem, PauseAnnotation) {
		t.Errorf("a paused one says %q", got.Problem)
	}
	if len(paused.GetAnnotations()) != 1 || paused.Object["spec"] != nil || !IsObject(paused) ||
		IsObject(&unstructured.Unstructured{}) {
		t.Errorf("there is left: %+v", paused.Object)
	}
}

func TestDeletedObjectsSaySo(t *testing.T) {
	u := seen(t, injected)
	u.Object["metadata"].(map[string]any)["deletionTimestamp"] = "2026-01-01T00:00:09Z"
	if got := Read(u); !got.Deleting.Equal(at(9)) {
		t.Errorf("it is being deleted since %v", got.Deleting)
	}
}

func TestWhatIsReleasedSaysSo(t *testing.T) {
	u := seen(t, waiting)
	i := Read(u)
	patch := Release("stores", i)
	if patch.GetUID() != "u" || patch.GetName() != u.GetName() || patch.GetAnnotations()[ForceAnnotation] != Forced {
		t.Errorf("the patch is %+v", patch.Object)
	}
	u.SetAnnotations(patch.GetAnnotations())
	Strip(u)
	if got := Read(u); !got.Forced || i.Forced {
		t.Errorf("it was released: %v, and before: %v", got.Forced, i.Forced)
	}
}
