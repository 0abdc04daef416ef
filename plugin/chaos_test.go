package plugin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/config/chaos"
	"github.com/georegister/georegister/controllers/build"
	"github.com/georegister/georegister/workload/checked"
)

// controllers play what makes pods of Jobs and nodes of Workflows.
type controllers struct {
	node    map[string]any // the Workflow's node, without its metadata
	exit    int32          // of the verification
	verdict string
}

// chaotic is a connection to an apiserver with Chaos Mesh, played by c; what is applied is handed to applied.
func chaotic(
	t *testing.T, c controllers, applied func(*unstructured.Unstructured), objects ...client.Object,
) *Kubernetes {
	t.Helper()
	k := connect(t, nil)
	scheme, err := newScheme()
	if err != nil {
		t.Fatal(err)
	}
	k.Client = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithInterceptorFuncs(interceptor.Funcs{
			Apply: func(ctx context.Context, w client.WithWatch, o runtime.ApplyConfiguration,
				_ ...client.ApplyOption) error {
				text, err := json.Marshal(o)
				if err != nil {
					return err
				}
				object := &unstructured.Unstructured{}
				if err := json.Unmarshal(text, &object.Object); err != nil {
					return err
				}
				if applied != nil {
					applied(object.DeepCopy())
				}
				if object.GetKind() == "Job" {
					return errors.Join(w.Create(ctx, object), w.Create(ctx, c.pod(object.GetName())))
				}
				object.Object["status"] = conditions("Accomplished")
				node := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(c.node)}
				node.SetGroupVersionKind(workflowNodeKind)
				node.SetNamespace(namespace)
				node.SetName("n")
				node.SetLabels(map[string]string{workflowLabel: object.GetName()})
				return errors.Join(w.Create(ctx, object), w.Create(ctx, node))
			},
			Delete: func(ctx context.Context, w client.WithWatch, o client.Object,
				options ...client.DeleteOption) error {
				if o.GetObjectKind().GroupVersionKind() == workflowKind {
					node := &unstructured.Unstructured{}
					node.SetGroupVersionKind(workflowNodeKind)
					node.SetNamespace(namespace)
					node.SetName("n")
					if err := w.Delete(ctx, node); err != nil {
						return err
					}
				}
				return w.Delete(ctx, o, options...)
			},
		}).Build()
	return k
}

func (c controllers) pod(job string) *corev1.Pod {
	message, _ := json.Marshal(checked.Summary{
		Verdict: c.verdict, Operations: 42, Outcomes: map[string]int{"ok": 42},
		Sites: map[string]checked.SiteSummary{"a": {OK: 42, LongestGap: 1234}},
	})
	state := corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{ExitCode: c.exit, Message: string(message)},
	}
	if c.verdict == "" {
		state = corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: job + "-p", Labels: map[string]string{batchv1.JobNameLabel: job},
		},
		Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{State: state}}},
	}
}

func conditions(names ...string) map[string]any {
	var all []any
	for _, name := range names {
		all = append(all, map[string]any{"type": name, "status": "True"})
	}
	return map[string]any{"conditions": all}
}

// killed is a node that has killed first--b--2-0.
func killed() (node map[string]any, object *unstructured.Unstructured) {
	status := conditions("Accomplished")
	status["chaosResource"] = map[string]any{"kind": "PodChaos", "name": "kill-x"}
	injected := conditions("AllInjected")
	injected["experiment"] = map[string]any{"containerRecords": []any{map[string]any{"id": "shop/first--b--2-0"}}}
	object = &unstructured.Unstructured{Object: map[string]any{"status": injected}}
	object.SetGroupVersionKind(chaosGroup.WithKind("PodChaos"))
	object.SetNamespace(namespace)
	object.SetName("kill-x")
	return map[string]any{"spec": map[string]any{"type": "PodChaos", "templateName": "kill-replica-inject"},
		"status": status}, object
}

// image is a member that runs one.
func image(i int) *corev1.Pod {
	pod := member(i)
	pod.Spec.Containers = []corev1.Container{{Name: build.Container, Image: "georegister:v1"}}
	return pod
}

func TestChaosRun(t *testing.T) {
	node, object := killed()
	var made []*unstructured.Unstructured
	cluster := healthy()
	cluster.Spec.WAN = &v1alpha1.WAN{Provider: v1alpha1.ChaosMesh}
	k := chaotic(t, controllers{node: node, verdict: checked.Proved}, func(o *unstructured.Unstructured) {
		made = append(made, o)
	},
		cluster, image(0), image(1), image(2), object)
	report := filepath.Join(t.TempDir(), "report")
	var out bytes.Buffer
	err := k.RunChaos(t.Context(), &out, EveryExperiment, ChaosOptions{
		Duration: 10 * time.Minute, Seed: 7, Report: report, Experiments: []string{"kill-replica"},
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	for _, want := range []string{
		"on cluster first: all for 10m0s; site c is hit, a is not, c are a minority",
		"kill-replica: injected: first--b--2-0 (kill-x)",
		"kill-replica: healed", "verdict: proved", "1234.0", "42 operations: 42 ok",
		"[chaos] healed: nothing is injected any more", "[verify] fake logs",
		"Not delayed: the way between a site's clients and its own members",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("lacks %q:\n%s", want, out.String())
		}
	}
	if text, err := os.ReadFile(report); err != nil || string(text) != "fake logs" {
		t.Errorf("the report is %q: %v", text, err)
	}
	if len(made) != 2 || made[0].GetKind() != "Job" || made[1].GetKind() != "Workflow" {
		t.Fatalf("applied %v", made)
	}
	run := made[0].GetLabels()[chaos.RunLabel]
	for _, o := range made {
		if run == "" || o.GetLabels()[chaos.RunLabel] != run || !strings.HasSuffix(o.GetName(), "-"+run) ||
			o.GetNamespace() != namespace {
			t.Errorf("%s/%s is labelled %v", o.GetNamespace(), o.GetName(), o.GetLabels())
		}
	}
	containers, _, _ := unstructured.NestedSlice(made[0].Object, "spec", "template", "spec", "containers")
	args, _, _ := unstructured.NestedStringSlice(containers[0].(map[string]any), "args")
	if containers[0].(map[string]any)["image"] != "georegister:v1" || !slices.Contains(args, "--sites=a,b,c") ||
		!slices.Contains(args, "--seed=7") {
		t.Errorf("the verification is %v", containers)
	}
	// The verdict stays, what injects does not.
	if left := remaining(t, k); !slices.Equal(left, []string{"Job"}) {
		t.Errorf("left are %q", left)
	}
}

// remaining are the kinds of what is labelled as chaos.
func remaining(t *testing.T, k *Kubernetes) []string {
	t.Helper()
	var left []string
	for _, kind := range []string{"Workflow", "Job"} {
		group := chaosGroup
		if kind == "Job" {
			group = batchv1.SchemeGroupVersion
		}
		objects, err := k.listChaos(t.Context(), group.WithKind(kind),
			client.MatchingLabels{build.NameLabel: chaos.Application})
		if err != nil {
			t.Fatal(err)
		}
		for range objects {
			left = append(left, kind)
		}
	}
	return left
}

func TestChaosVerdicts(t *testing.T) {
	node, object := killed()
	aborted := map[string]any{
		"spec":   map[string]any{"type": "StatusCheck", "templateName": "peer-quorum"},
		"status": conditions("Accomplished", "Aborted"),
	}
	waits := runtime.DeepCopyJSON(node)
	delete(waits["status"].(map[string]any), "chaosResource")
	for _, tt := range []struct {
		name   string
		plays  controllers
		failed bool
		want   string
	}{
		{"a violation", controllers{node: node, verdict: checked.Violated, exit: 1}, true, "the cluster failed"},
		{"no decision", controllers{node: node, verdict: checked.NotDecided, exit: 2}, false, "decided nothing"},
		{"nothing was injected", controllers{node: waits, verdict: checked.Proved}, false,
			"kill-replica: not injected into all that it should hit"},
		{"a quorum that is gone", controllers{node: aborted, verdict: checked.Proved}, true,
			"a quorum was not there for a minute"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			k := chaotic(t, tt.plays, nil, healthy(), image(0), object)
			var out bytes.Buffer
			err := k.RunChaos(t.Context(), &out, "kill-replica",
				ChaosOptions{Duration: 10 * time.Minute, Every: time.Minute})
			if err == nil || errors.Is(err, ErrChaosFailed) != tt.failed || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v\n%s", err, out.String())
			}
		})
	}
}

// Whoever interrupts a run gets the cluster back as it was.
func TestChaosHealsWhenInterrupted(t *testing.T) {
	node, object := killed()
	ctx, cancel := context.WithCancel(t.Context())
	k := chaotic(t, controllers{node: node}, func(o *unstructured.Unstructured) {
		if o.GetKind() == "Workflow" {
			cancel()
		}
	}, healthy(), image(0), object)
	var out bytes.Buffer
	err := k.RunChaos(ctx, &out, EveryExperiment, ChaosOptions{Duration: 10 * time.Minute})
	if !errors.Is(err, context.Canceled) || errors.Is(err, ErrChaosFailed) {
		t.Errorf("got %v", err)
	}
	left := remaining(t, k)
	if len(left) > 0 || !strings.Contains(out.String(), "interrupted: healing") ||
		!strings.Contains(out.String(), "healed: nothing") {
		t.Errorf("left are %q\n%s", left, out.String())
	}
}

func TestChaosMistakes(t *testing.T) {
	busy := &unstructured.Unstructured{Object: map[string]any{}}
	busy.SetGroupVersionKind(workflowKind)
	busy.SetNamespace(namespace)
	busy.SetName("first-chaos-other")
	busy.SetLabels(map[string]string{build.ClusterLabel: "first", build.NameLabel: chaos.Application})
	single := healthy()
	single.Spec.Sites = single.Spec.Sites[:1]
	for _, tt := range []struct {
		name, experiment string
		options          ChaosOptions
		objects          []client.Object
		want             string
	}{
		{"no such experiment", "flood", ChaosOptions{Duration: time.Hour, Every: time.Minute}, nil,
			"there is no experiment flood; there are: clock-skew"},
		{"none of several", EveryExperiment, ChaosOptions{Duration: time.Hour, Experiments: []string{"flood"}}, nil,
			"there is no experiment flood"},
		{"too short for all", EveryExperiment, ChaosOptions{Duration: time.Minute}, nil,
			"--duration 1m0s is too short for 6 experiments; give at least 5m30s"},
		{"too short for one", "kill-site", ChaosOptions{Duration: 2 * time.Minute, Every: time.Minute}, nil,
			"too short to inject every 1m0s; give at least 2m25s"},
		{"no such site", "kill-site", ChaosOptions{Duration: time.Hour, Every: time.Minute, Site: "x"}, nil,
			"--site x: cluster first has the sites a, b, c"},
		{"one site for both", "kill-site", ChaosOptions{Duration: time.Hour, Every: time.Minute, Site: "a", Peer: "a"},
			nil, "name two different ones"},
		{"a second run", "kill-site", ChaosOptions{Duration: time.Hour, Every: time.Minute}, []client.Object{busy},
			"Workflow first-chaos-other is under way"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			k := chaotic(t, controllers{}, func(o *unstructured.Unstructured) {
				t.Errorf("made %s", o.GetName())
			}, append(tt.objects, healthy(), image(0))...)
			err := k.RunChaos(t.Context(), &bytes.Buffer{}, tt.experiment, tt.options)
			if err == nil || !strings.Contains(err.Error(), tt.want) || errors.Is(err, ErrChaosFailed) {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
}

// What is not on disk would be gone, and the cluster with it.
func TestKillingAllNeedsDisks(t *testing.T) {
	cluster := healthy()
	cluster.Spec.Storage.Durability = v1alpha1.Interval
	k := chaotic(t, controllers{}, func(o *unstructured.Unstructured) {
		t.Errorf("made %s", o.GetName())
	}, cluster, image(0))
	for name, o := range map[string]ChaosOptions{
		killAll:         {Duration: time.Hour, Every: time.Minute},
		EveryExperiment: {Duration: time.Hour, Experiments: []string{"kill-site", killAll}},
	} {
		err := k.RunChaos(t.Context(), &bytes.Buffer{}, name, o)
		if err == nil ||
			!strings.Contains(err.Error(), "cluster first has durability Interval, and would be lost: it is for Sync") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestChaosNeedsChaosMesh(t *testing.T) {
	k := connect(t, nil, healthy(), image(0))
	k.Client = interceptor.NewClient(k.Client.(client.WithWatch), interceptor.Funcs{
		List: func(ctx context.Context, w client.WithWatch, list client.ObjectList,
			options ...client.ListOption) error {
			if kind := list.GetObjectKind().GroupVersionKind(); kind.Group == chaosGroup.Group {
				return &meta.NoKindMatchError{GroupKind: kind.GroupKind()}
			}
			return w.List(ctx, list, options...)
		},
	})
	err := k.RunChaos(t.Context(), &bytes.Buffer{}, "kill-site", ChaosOptions{Duration: time.Hour, Every: time.Minute})
	if err == nil || !strings.Contains(err.Error(), "install Chaos Mesh first (docs/chaos.md)") {
		t.Errorf("got %v", err)
	}
}

func TestChaosChoosesSites(t *testing.T) {
	five := healthy()
	two := int32(2)
	five.Spec.Sites[0].Members = &two
	five.Spec.Sites[2].Members = &two
	for _, tt := range []struct{ site, peer, want string }{
		{"", "", "c a [c]"}, {"b", "", "b a [b]"}, {"a", "", "a b [a]"}, {"", "c", "b c [b]"}, {"b", "c", "b c [b]"},
		{"", "b", "c b [c]"},
	} {
		site, peer, minority, err := chooseSites(five, tt.site, tt.peer)
		if got := site + " " + peer + " [" + strings.Join(minority, " ") + "]"; err != nil || got != tt.want {
			t.Errorf("--site %q --peer %q: %s, want %s (%v)", tt.site, tt.peer, got, tt.want, err)
		}
	}
	single := healthy()
	single.Spec.Sites = single.Spec.Sites[:1]
	if _, _, _, err := chooseSites(single, "", ""); err == nil ||
		!strings.Contains(err.Error(), "no site that its quorum can do without") {
		t.Errorf("a cluster of one site: %v", err)
	}
}

func TestChaosStop(t *testing.T) {
	object := func(kind, name, run string, status map[string]any) *unstructured.Unstructured {
		o := &unstructured.Unstructured{
			Object: map[string]any{"spec": map[string]any{"type": "PodChaos"}, "status": status},
		}
		o.SetGroupVersionKind(chaosGroup.WithKind(kind))
		if kind == "Job" {
			o.SetGroupVersionKind(batchv1.SchemeGroupVersion.WithKind(kind))
			o.Object["spec"] = map[string]any{}
		}
		o.SetNamespace(namespace)
		o.SetName(name)
		o.SetLabels(map[string]string{build.NameLabel: chaos.Application, chaos.RunLabel: run})
		return o
	}
	all := []client.Object{
		object("Workflow", "w1", "one", nil), object("Job", "j1", "one", conditions("Complete")),
		object("Schedule", "s2", "", nil), object("Job", "j2", "two", nil),
	}
	for _, tt := range []struct {
		run, want string
	}{
		{"one", "Workflow w1 is deleted\nJob j1 is deleted\nhealed: nothing is injected any more\n"},
		{"",
			"Workflow w1 is deleted\nSchedule s2 is deleted\nJob j2 is deleted\nhealed: nothing is injected " +
				"any more\n"},
		{"three", "namespace shop has no chaos to stop\n"},
	} {
		k := connect(t, nil, all...)
		var out bytes.Buffer
		if err := k.StopChaos(t.Context(), &out, tt.run); err != nil || out.String() != tt.want {
			t.Errorf("stop %q: %v\n%s", tt.run, err, out.String())
		}
	}
}

// What can't be taken back is named, with where to read on.
func TestChaosThatStays(t *testing.T) {
	k := connect(t, nil)
	node := &unstructured.Unstructured{}
	node.SetGroupVersionKind(workflowNodeKind)
	node.SetNamespace(namespace)
	node.SetName("partition-site-inject-x")
	node.SetLabels(map[string]string{workflowLabel: "w"})
	if err := k.Client.Create(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := k.gone(ctx, workflowNodeKind, workflowLabel, "w")
	if err == nil || !strings.Contains(err.Error(), "not healed yet: WorkflowNode partition-site-inject-x") ||
		!strings.Contains(err.Error(), "docs/chaos.md") {
		t.Errorf("got %v", err)
	}
}

func TestChaosList(t *testing.T) {
	var out bytes.Buffer
	if err := ListChaos(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"all                 kill-replica, kill-site", "io-fault            Fails every write", "OFFSET, such as -10m",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("lacks %q:\n%s", want, out.String())
		}
	}
}
