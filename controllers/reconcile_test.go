package controllers

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/controllers/apply"
	"github.com/georegister/georegister/controllers/build"
	"github.com/georegister/georegister/controllers/decide"
	"github.com/georegister/georegister/controllers/decide/message"
	"github.com/georegister/georegister/controllers/decide/rules"
	"github.com/georegister/georegister/controllers/decide/status"
	"github.com/georegister/georegister/controllers/world"
	"github.com/georegister/georegister/replica/view"
)

var request = reconcile.Request{NamespacedName: client.ObjectKey{Namespace: "shop", Name: "first"}}

func config(name string) *corev1.ConfigMap {
	controls := true
	return &corev1.ConfigMap{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: name,
			OwnerReferences: []metav1.OwnerReference{{UID: shop().UID, Controller: &controls}},
		},
	}
}

// next is a plan with something of everything, and what it was decided on.
func next() (world.Snapshot, decide.Plan) {
	all := founded().Members
	homeless := pod(all[1])
	homeless.Status.PodIP = ""
	s := world.Snapshot{Cluster: shop(), ClusterID: "first.x", Settings: settings, Members: []world.Member{
		{ID: 1, Pod: pod(all[0])}, {ID: 2, Pod: homeless}, {ID: 3},
	}}
	return s, decide.Plan{
		Apply: []client.Object{config("one"), config("two")}, Prune: []client.Object{config("old")},
		Step:   rules.SendView{View: founded(), Members: []view.MemberID{1, 2, 3, 9}},
		Events: []message.Event{message.Normal("Founded", "Found", "100% of them")},
	}
}

func old() *corev1.ConfigMap {
	o := config("old")
	o.UID = "o"
	return o
}

func TestPlansAreCarriedOutInOrder(t *testing.T) {
	d := &diary{}
	s, plan := next()
	if err := operator(t, d, old()).executor.carryOut(t.Context(), s, plan); err != nil {
		t.Fatal(err)
	}
	// Members without an address can't be told, and are seen to lack the view the next time.
	want := []string{
		"apply ConfigMap one", "apply ConfigMap two", "delete old",
		"tell shop/first member 1 of first.x at 127.0.0.1:7002 epoch 1", "event Normal Founded Found: 100% of them",
	}
	if !slices.Equal(d.lines, want) {
		t.Errorf("did\n%s\nwant\n%s", strings.Join(d.lines, "\n"), strings.Join(want, "\n"))
	}
}

func TestFailuresDoNotKeepMembersFromRepair(t *testing.T) {
	for name, tt := range map[string]struct {
		fails    string // what begins so
		step     bool   // it is taken
		event    bool   // of the step
		complete string // the error has
	}{
		"an object":  {"apply ConfigMap one", true, true, "apply ConfigMap one: "},
		"a deletion": {"delete old", true, true, "delete old: "},
		"the step":   {"tell ", true, false, "tell view 1: "},
	} {
		d := &diary{refuse: func(line string) error {
			if strings.HasPrefix(line, tt.fails) {
				return errors.New("refused")
			}
			return nil
		}}
		s, plan := next()
		err := operator(t, d, old()).executor.carryOut(t.Context(), s, plan)
		did := strings.Join(d.lines, "\n")
		if err == nil || !strings.Contains(err.Error(), tt.complete) || strings.Contains(did, "tell ") != tt.step ||
			strings.Contains(did, "event ") != tt.event {
			t.Errorf("%s: %v; did\n%s", name, err, did)
		}
		if !strings.Contains(did, "apply ConfigMap two") {
			t.Errorf("%s keeps another from being applied", name)
		}
	}
}

func TestStepsAreTaken(t *testing.T) {
	later := founded()
	later.Epoch = 2
	record := build.Record(input())
	record.UID = "r"
	for name, tt := range map[string]struct {
		step  func(*corev1.ConfigMap) rules.Step // of the record as it is
		there bool                               // a record is
		want  string
		stale bool
	}{
		"found": {func(*corev1.ConfigMap) rules.Step {
			return rules.WriteRecord{View: founded()}
		}, false, "create first--view", false},
		"found twice": {func(*corev1.ConfigMap) rules.Step {
			return rules.WriteRecord{View: founded()}
		}, true, "create first--view", true},
		"rebuild what is lost": {func(*corev1.ConfigMap) rules.Step {
			return rules.WriteRecord{View: later}
		}, false, "create first--view", false},
		"change": {func(c *corev1.ConfigMap) rules.Step {
			return rules.WriteRecord{View: later, UID: c.UID, ResourceVersion: c.ResourceVersion}
		}, true, "update first--view", false},
		"change what was changed": {func(c *corev1.ConfigMap) rules.Step {
			return rules.WriteRecord{View: later, UID: c.UID, ResourceVersion: "1"}
		}, true, "update first--view", true},
		"discard": {func(c *corev1.ConfigMap) rules.Step {
			return rules.Discard{Member: 3, Objects: []client.Object{c}}
		}, true, "delete first--view", false},
		"delete a pod that is gone": {func(*corev1.ConfigMap) rules.Step {
			return rules.DeletePod{Member: 1, Name: "first--a--1-0", UID: "u", ResourceVersion: "5"}
		}, false, "delete first--a--1-0", false},
	} {
		d := &diary{}
		var objects []client.Object
		if tt.there {
			objects = append(objects, record.DeepCopy())
		}
		r := operator(t, d, objects...)
		live := &corev1.ConfigMap{}
		if err := client.IgnoreNotFound(r.client.Get(t.Context(), client.ObjectKeyFromObject(record), live)); err !=
			nil {
			t.Fatal(err)
		}
		s, _ := next()
		err := r.executor.take(t.Context(), s, tt.step(live))
		if !slices.Equal(d.lines, []string{tt.want}) || tt.stale != errors.Is(err, apply.ErrStale) ||
			!tt.stale && err != nil {
			t.Errorf("%s: did %q, %v", name, d.lines, err)
		}
	}
}

// A cluster that nobody has looked at yet is made in a few looks, the status at the end of each. Then nothing is
// written: its members do not answer, and that is all there is to wait for.
func TestReconcileComesToRest(t *testing.T) {
	d := &diary{}
	r := operator(t, d, shop())
	var did []string
	for looks := 1; ; looks++ {
		d.lines = nil
		result, err := r.Reconcile(t.Context(), request)
		if err != nil || result.RequeueAfter <= 0 {
			t.Fatalf("look %d: %+v, %v", looks, result, err)
		}
		if did = append(did, d.lines...); len(d.lines) == 0 {
			break
		}
		if at := slices.Index(d.lines, "status of first"); at >= 0 && at != len(d.lines)-1 {
			t.Errorf("look %d told the status before it was done:\n%s", looks, strings.Join(d.lines, "\n"))
		}
		if looks == 5 {
			t.Fatalf("it does not come to rest; last it did\n%s", strings.Join(d.lines, "\n"))
		}
	}
	for _, m := range firstMembers(shop()) {
		volume := slices.Index(did, "apply PersistentVolumeClaim "+build.VolumeName("first", m))
		set := slices.Index(did, "apply StatefulSet "+build.StatefulSetName("first", m))
		if volume < 0 || set < volume {
			t.Errorf("member %d: volume at %d, StatefulSet at %d of\n%s", m.ID, volume, set, strings.Join(did, "\n"))
		}
	}
	sorted := slices.Sorted(
		slices.Values(slices.DeleteFunc(did, func(line string) bool { return line == "status of first" })))
	if len(slices.Compact(slices.Clone(sorted))) != len(sorted) {
		t.Errorf("something was applied twice:\n%s", strings.Join(sorted, "\n"))
	}
}

func TestReconcileForgetsWhatIsGone(t *testing.T) {
	d := &diary{}
	_, err := operator(t, d).Reconcile(t.Context(), request)
	if err != nil || !slices.Equal(d.lines, []string{"forget shop/first"}) {
		t.Errorf("did %q, %v", d.lines, err)
	}
}

func TestReconcileSaysWhatFailed(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "services"}, "first--peers",
		errors.New("no role"))
	d := &diary{refuse: func(line string) error {
		if line == "apply Service first--peers" {
			return forbidden
		}
		return nil
	}}
	r := operator(t, d, shop())
	if _, err := r.Reconcile(t.Context(), request); !apierrors.IsForbidden(err) {
		t.Fatalf("got %v, want what the apiserver said", err)
	}
	var after v1alpha1.GeoRegisterCluster
	if err := r.client.Get(t.Context(), request.NamespacedName, &after); err != nil {
		t.Fatal(err)
	}
	degraded := meta.FindStatusCondition(after.Status.Conditions, v1alpha1.ConditionDegraded)
	if degraded == nil || degraded.Status != metav1.ConditionTrue ||
		!strings.Contains(degraded.Message, "apply Service first--peers: ") {
		t.Errorf("the status says %+v", degraded)
	}
	if !slices.ContainsFunc(d.lines, func(line string) bool {
		return strings.HasPrefix(line, "event Warning OperatorFailed CarryOut: ") &&
			strings.Contains(line, "apply Service first--peers: ")
	}) {
		t.Errorf("no event says so; did\n%s", strings.Join(d.lines, "\n"))
	}
	// A lost race is nothing to tell: it is looked at again at once.
	d.refuse = func(string) error {
		return apierrors.NewConflict(schema.GroupResource{}, "first--peers", errors.New("changed"))
	}
	result, err := operator(t, d, shop()).Reconcile(t.Context(), request)
	if err != nil || result.RequeueAfter != atOnce {
		t.Errorf("a lost race: %+v, %v", result, err)
	}
}

// A failure is told though a race was lost in the same look: nobody says that the next look meets it again.
func TestReconcileSaysWhatFailedBesideALostRace(t *testing.T) {
	for name, raced := range map[string]string{
		"another object": "apply Service first--a", "the status": "status of first",
	} {
		d := &diary{refuse: func(line string) error {
			switch line {
			case "apply Service first--peers":
				return apierrors.NewForbidden(schema.GroupResource{Resource: "services"}, "first--peers",
					errors.New("no role"))
			case raced:
				return apierrors.NewConflict(schema.GroupResource{}, "first", errors.New("changed"))
			}
			return nil
		}}
		r := operator(t, d, shop())
		if _, err := r.Reconcile(t.Context(), request); !apierrors.IsForbidden(err) {
			t.Errorf("a race for %s: got %v, want what the apiserver said", name, err)
		}
		did := strings.Join(d.lines, "\n")
		if strings.Count(did, "event Warning OperatorFailed ") != 1 || !strings.Contains(did, raced) {
			t.Errorf("a race for %s: did\n%s", name, did)
		}
		var after v1alpha1.GeoRegisterCluster
		if err := r.client.Get(t.Context(), request.NamespacedName, &after); err != nil {
			t.Fatal(err)
		}
		said := meta.FindStatusCondition(after.Status.Conditions, v1alpha1.ConditionDegraded)
		if raced != "status of first" &&
			(said == nil || said.Reason != status.OperatorFailed || strings.Contains(said.Message, "first--a")) {
			t.Errorf("a race for %s: the status says %+v", name, said)
		}
	}
}

// An operator that can't look says so, and keeps what it said before.
func TestReconcileSaysThatItCanNotSee(t *testing.T) {
	d := &diary{}
	before := shop()
	before.Status.Ready = "3/3"
	r := operator(t, d, before)
	r.live = interceptor.NewClient(r.client.(client.WithWatch), interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return errors.New("the apiserver is busy")
		},
	})
	for range 2 {
		if _, err := r.Reconcile(t.Context(), request); err == nil {
			t.Fatal("no error")
		}
	}
	var after v1alpha1.GeoRegisterCluster
	if err := r.client.Get(t.Context(), request.NamespacedName, &after); err != nil {
		t.Fatal(err)
	}
	said := meta.FindStatusCondition(after.Status.Conditions, v1alpha1.ConditionDegraded)
	if said == nil || said.Reason != status.OperatorFailed ||
		strings.Count(said.Message, "the apiserver is busy") != 1 || after.Status.Ready != "3/3" {
		t.Errorf("the status says %+v", after.Status)
	}
	did := strings.Join(d.lines, "\n")
	if !strings.Contains(did, "event Warning OperatorFailed Observe: ") || strings.Count(did, "status of") != 1 {
		t.Errorf("did\n%s", did)
	}
}

func TestMessagesAreBounded(t *testing.T) {
	var s v1alpha1.GeoRegisterClusterStatus
	sayFailure(&s, 1, errors.New(strings.Repeat("é", 4096)))
	message := s.Conditions[0].Message
	if len(message) > 1024 || !utf8.ValidString(message) || !strings.HasSuffix(message, "...") {
		t.Errorf("the message has %d bytes, valid: %t", len(message), utf8.ValidString(message))
	}
	if got := reason(grpcstatus.Error(codes.Aborted, "it holds epoch 2")); got != "it holds epoch 2 (Aborted)" {
		t.Errorf("got %q", got)
	}
}
