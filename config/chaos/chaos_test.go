package chaos

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chaos-mesh/chaos-mesh/api/v1alpha1"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/georegister/georegister/controllers/build"
)

// longest are parameters with the longest names that there can be: 20 characters for a cluster, 15 for a site.
func longest(t *testing.T) Parameters {
	t.Helper()
	p := Defaults()
	p.Cluster, p.Site, p.Peer = strings.Repeat("c", 20), strings.Repeat("s", 15), strings.Repeat("p", 15)
	p.Namespace, p.OperatorNamespace, p.Minority = "shop", "operators", []string{p.Site, "other"}
	p.SiteQuorum, p.PeerQuorum = QuorumURL(p.Cluster, p.Site, p.Namespace), QuorumURL(p.Cluster, p.Peer, p.Namespace)
	return p
}

// checkFields refuses fields that the kind does not have.
func checkFields(t *testing.T, object *unstructured.Unstructured, into any) {
	t.Helper()
	text, err := object.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(text, into); err != nil {
		t.Errorf("%s %s: %v", object.GetKind(), object.GetName(), err)
	}
	left := regexp.MustCompile(
		`\b(CLUSTER|NAMESPACE|OPERATOR_NAMESPACE|PROTOCOL|IMAGE|SITES?|PEER|MINORITY|[A-Z]+_QUORUM|EVERY|`+
			`DURATION|SETTLE|LOAD|SEED|LOSS|DELAY|OFFSET|STRESS)\b`).FindAllString(string(text), -1)
	if len(left) > 0 {
		t.Errorf("%s %s still has the parameters %q", object.GetKind(), object.GetName(), left)
	}
}

// Chaos Mesh's own validation takes every Schedule, and each hits this cluster's pods alone.
func TestSchedules(t *testing.T) {
	p := longest(t)
	all := List()
	if len(all) < 11 {
		t.Errorf("there are %d experiments", len(all))
	}
	for _, e := range all {
		t.Run(e.Name, func(t *testing.T) {
			object := Manifest(e.Name, p)
			var s v1alpha1.Schedule
			checkFields(t, object, &s)
			if _, err := s.ValidateCreate(t.Context(), &s); err != nil {
				t.Error(err)
			}
			if len(s.Name)+len("-run01") > 57 || s.Namespace != "shop" || s.Labels[ExperimentLabel] != e.Name {
				t.Errorf("%s/%s, labelled %v", s.Namespace, s.Name, s.Labels)
			}
			if s.Spec.ConcurrencyPolicy != v1alpha1.ForbidConcurrent || s.Spec.Schedule != "@every 2m" {
				t.Errorf("it is injected %s, %s", s.Spec.Schedule, s.Spec.ConcurrencyPolicy)
			}
			checkSelectors(t, object.Object, p)
			// A pod that is deleted has two seconds to end even so: a member's disk is told apart from its memory by a
			// kill alone.
			action := v1alpha1.PodKillAction
			if e.Name == "kill-all" {
				action = v1alpha1.ContainerKillAction
			}
			if chaos := s.Spec.PodChaos; chaos != nil && (chaos.Action != action || chaos.GracePeriod != 0) {
				t.Errorf("%s with %d s of grace, want %s", chaos.Action, chaos.GracePeriod, action)
			}
			if chaos := s.Spec.PodChaos; chaos != nil && action == v1alpha1.ContainerKillAction &&
				!slices.Equal(chaos.ContainerNames, []string{build.Container}) {
				t.Errorf("it kills the containers %v, want %s", chaos.ContainerNames, build.Container)
			}
		})
	}
}

// checkSelectors checks that every selector names namespaces and the cluster, or is that of the operator.
func checkSelectors(t *testing.T, value any, p Parameters) {
	t.Helper()
	switch v := value.(type) {
	case []any:
		for _, item := range v {
			checkSelectors(t, item, p)
		}
	case map[string]any:
		for key, item := range v { // order is irrelevant: each is checked for itself
			if key != "selector" {
				checkSelectors(t, item, p)
				continue
			}
			labels, _, err := unstructured.NestedStringMap(v, key, "labelSelectors")
			namespaces, _, err2 := unstructured.NestedStringSlice(v, key, "namespaces")
			members := labels[build.NameLabel] == build.Application && labels[build.ClusterLabel] == p.Cluster &&
				slices.Equal(namespaces, []string{"shop"})
			operator := labels[build.NameLabel] == build.OperatorName && slices.Equal(namespaces, []string{"operators"})
			if err != nil || err2 != nil || !members && !operator {
				t.Errorf("selector %v hits others", item)
			}
		}
	}
}

// What an experiment does, its parameters and whether it was run are written at its top.
func TestEveryExperimentSaysWhatItIs(t *testing.T) {
	all := List()
	for _, e := range all {
		if e.What == "" || e.Parameters == "" ||
			!strings.HasPrefix(e.Ran, "Dry-run only: ") && !strings.HasPrefix(e.Ran, "Run ") {
			t.Errorf("%s: the comment at the top of its file lacks a part: what it does, then `Parameters: `, then "+
				"`Dry-run only: ` or `Run `: %+v", e.Name, e)
		}
		page, err := os.ReadFile("../../docs/chaos.md")
		if err != nil || !strings.Contains(string(page), "| `"+e.Name+"` |") {
			t.Errorf("docs/chaos.md has no row for %s (%v)", e.Name, err)
		}
		bases, err := os.ReadFile("kustomization.yaml")
		if err != nil || !strings.Contains(string(bases), "# - "+e.Name+".yaml\n") {
			t.Errorf("kustomization.yaml does not offer %s (%v)", e.Name, err)
		}
	}
}

func TestWorkflows(t *testing.T) {
	p := longest(t)
	var err error
	var names []string
	workflows := map[string]*unstructured.Unstructured{}
	for _, e := range List() {
		names = append(names, e.Name)
		if workflows[e.Name], err = Repeated(e.Name, "8m", p); err != nil {
			t.Fatal(err)
		}
	}
	if workflows["all"], err = Workflow(names, p); err != nil {
		t.Fatal(err)
	}
	for name, object := range workflows { // order is irrelevant: each is checked for itself
		t.Run(name, func(t *testing.T) {
			var w v1alpha1.Workflow
			checkFields(t, object, &w)
			if _, err := w.ValidateCreate(t.Context(), &w); err != nil {
				t.Error(err)
			}
			checkSelectors(t, object.Object, p)
			if len(w.Name)+len("-run01") > 57 {
				t.Errorf("name %s is too long", w.Name)
			}
			for _, template := range w.Spec.Templates {
				checkTemplate(t, template)
			}
			if got := w.Spec.Templates[0].Children; name == "all" && !slices.Equal(got[1:], names) {
				t.Errorf("it does %q, not %q", got, names)
			}
		})
	}
}

// checkTemplate checks that what injects also ends, and that what is checked can abort.
func checkTemplate(t *testing.T, template v1alpha1.Template) {
	t.Helper()
	if len(template.Name) > 51 {
		t.Errorf("name %s of a template is too long", template.Name)
	}
	switch template.Type {
	case v1alpha1.TypeSerial, v1alpha1.TypeParallel:
	case v1alpha1.TypeStatusCheck:
		if !template.AbortWithStatusCheck ||
			!strings.HasSuffix(template.StatusCheck.HTTPStatusCheck.RequestUrl, ".shop.svc:8080/quorumz") {
			t.Errorf("%s asks %s", template.Name, template.StatusCheck.HTTPStatusCheck.RequestUrl)
		}
	default:
		if template.Deadline == nil {
			t.Errorf("%s would never end", template.Name)
		} else if _, err := time.ParseDuration(*template.Deadline); err != nil {
			t.Errorf("%s: %v", template.Name, err)
		}
	}
}

func TestWorkflowOfWhatThereIsNot(t *testing.T) {
	p := longest(t)
	_, err := Workflow([]string{"kill-replica", "flood"}, p)
	if err == nil || !strings.Contains(err.Error(), "there is no experiment flood; there are: clock-skew, cpu-stress") {
		t.Errorf("got %v", err)
	}
	if _, err := Repeated("verify", "1m", p); err == nil {
		t.Error("the verification is no experiment")
	}
}

func TestVerificationJob(t *testing.T) {
	p := longest(t)
	object := Manifest(Verification, p)
	var job batchv1.Job
	checkFields(t, object, &job)
	pod := job.Spec.Template.Spec
	switch {
	case *job.Spec.BackoffLimit != 0, pod.RestartPolicy != "Never", job.Spec.TTLSecondsAfterFinished != nil:
		t.Error("a verdict is given once, and kept")
	case pod.Containers[0].Image != p.Image, !slices.Contains(pod.Containers[0].Args, "--cluster="+p.Cluster):
		t.Errorf("it runs %s %q", pod.Containers[0].Image, pod.Containers[0].Args)
	case job.Spec.Template.Labels[build.NameLabel] == build.Application:
		t.Error("its pod would be taken for a member")
	}
}
