package plugin

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgofake "k8s.io/client-go/kubernetes/fake"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/controllers/build"
	"github.com/georegister/georegister/replica/listener/operation"
	"github.com/georegister/georegister/replica/view"
	"github.com/georegister/georegister/test/listenertest"
	"github.com/georegister/georegister/test/listenertest/loopback"
)

const namespace = "shop"

var sites = []string{"a", "b", "c"}

// healthy is a cluster of three sites as its operator reports it.
func healthy() *v1alpha1.GeoRegisterCluster {
	c := &v1alpha1.GeoRegisterCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "first", Generation: 1},
		Spec:       v1alpha1.GeoRegisterClusterSpec{Protocol: "Gryff"},
		Status: v1alpha1.GeoRegisterClusterStatus{
			ObservedGeneration: 1, Ready: "3/3",
			View: &v1alpha1.ViewStatus{ClusterID: "first.x", Epoch: 1, Members: 3, Majority: 2},
			Conditions: []metav1.Condition{
				{
					Type: v1alpha1.ConditionAvailable, Status: metav1.ConditionTrue, Reason: "Serving",
					Message: "all serve",
				},
				{
					Type: v1alpha1.ConditionQuorumHealthy, Status: metav1.ConditionTrue,
					Reason: "Reached", Message: "3 of 3",
				},
				{
					Type: v1alpha1.ConditionDegraded, Status: metav1.ConditionFalse, Reason: "Whole",
					Message: "nothing is amiss",
				},
			},
		},
	}
	for i, site := range sites {
		c.Spec.Sites = append(c.Spec.Sites, v1alpha1.Site{Name: site})
		c.Status.Sites = append(c.Status.Sites,
			v1alpha1.SiteStatus{Name: site, Redis: site + ":6379", GRPC: site + ":7001"})
		c.Status.Members = append(c.Status.Members, v1alpha1.MemberStatus{
			ID: int64(i + 1), Site: site, Pod: member(i).Name, Node: "node-" + site, Role: "Voter", State: "serves",
		})
	}
	return c
}

// member is the ready pod of the cluster's i-th member, with its volume.
func member(i int) *corev1.Pod {
	m := view.Member{ID: view.MemberID(i + 1), Site: sites[i]}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: build.PodName("first", m), UID: "old", Labels: build.MemberLabels("first", m),
		},
		Spec: corev1.PodSpec{NodeName: "node-" + sites[i],
			Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{
					ClaimName: build.VolumeName("first", m),
				},
			}}}},
		Status: corev1.PodStatus{
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		},
	}
}

// connect is a connection to an apiserver that has the objects. On eviction, evict makes what a controller would.
func connect(t *testing.T, evict func(client.WithWatch, *corev1.Pod) error, objects ...client.Object) *Kubernetes {
	t.Helper()
	scheme, err := newScheme()
	if err != nil {
		t.Fatal(err)
	}
	store := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		SubResourceCreate: func(ctx context.Context, c client.Client, name string, o, sub client.Object,
			options ...client.SubResourceCreateOption) error {
			pod, isPod := o.(*corev1.Pod)
			if name != "eviction" || !isPod || evict == nil {
				t.Errorf("unexpected: create %s of %s", name, o.GetName())
				return errors.New("unexpected")
			}
			return evict(c.(client.WithWatch), pod)
		},
	}).Build()
	return &Kubernetes{Client: store, Pods: clientgofake.NewClientset(), Namespace: namespace}
}

func TestStatus(t *testing.T) {
	degraded := healthy()
	degraded.Generation = 2
	degraded.Status.Conditions[2] = metav1.Condition{
		Type: v1alpha1.ConditionDegraded, Status: metav1.ConditionTrue, Reason: "MemberSilent",
		Message: "member 3 is silent: dial timed out",
	}
	event := &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "e"}, Type: "Warning", Reason: "MemberSilent",
		Note:      "member 3 fell silent",
		EventTime: metav1.NewMicroTime(time.Now().Add(-time.Minute)),
		Regarding: corev1.ObjectReference{Kind: v1alpha1.Kind, Name: "first"},
	}
	foreign := event.DeepCopy()
	foreign.Name, foreign.Note, foreign.Regarding.Name = "f", "of another cluster", "second"
	down := healthy()
	down.Status.Conditions[0] = metav1.Condition{
		Type: v1alpha1.ConditionAvailable, Status: metav1.ConditionFalse, Reason: "NoQuorum",
		Message: "1 of 3 members is reached",
	}
	changing := healthy()
	percent := int32(63)
	changing.Status.Change = &v1alpha1.ChangeStatus{
		Epoch: 2, Step: v1alpha1.CatchingUp, Joining: []int32{4, 5}, Leaving: []int32{2},
		Settled: "2/4", Fetched: "1/2",
		Percent: &percent, Bytes: 3 << 19, RemainingBytes: 900 << 10,
		Since: metav1.NewTime(time.Now().Add(-3 * time.Minute)), Message: "Member 5 (site e) fetches the state",
	}
	changing.Status.Members = append(changing.Status.Members,
		v1alpha1.MemberStatus{ID: 4, Site: "d", Role: "Voter", State: "votes"})
	starting := healthy()
	starting.Status.Change = &v1alpha1.ChangeStatus{
		Step: v1alpha1.StartingMembers, Joining: []int32{4}, Since: metav1.Now(),
	}
	lost := healthy()
	lost.Status.Conditions[0] = down.Status.Conditions[0]
	lost.Status.Conditions = append(lost.Status.Conditions, metav1.Condition{
		Type: v1alpha1.ConditionQuorumLost, Status: metav1.ConditionTrue, Reason: "MembersLost",
		Message: "members 2 and 3 lost their volumes",
	})
	recovered := healthy()
	recovered.Status.Conditions = append(recovered.Status.Conditions, metav1.Condition{
		Type: v1alpha1.ConditionQuorumLost, Status: metav1.ConditionFalse, Reason: "QuorumThere",
		Message: "no quorum is lost",
	})
	recovered.Status.Recovered = &v1alpha1.RecoveredStatus{
		Epoch: 5, TrustedMember: 1, GivenUp: []int32{2, 3}, Time: metav1.NewTime(time.Now().Add(-time.Hour)),
		Message: "What only these acknowledged is lost",
	}
	withMasters := healthy()
	withMasters.Spec.Protocol = "CURP"
	unsynced, fast := int64(7), int32(80)
	withMasters.Status.Partitions = []v1alpha1.PartitionStatus{
		{
			Number: 0, Term: 3, Master: 1, Backups: []int32{3}, Witnesses: []int32{4}, Serving: true,
			Unsynced: &unsynced, FastPathPercent: &fast,
		},
		{Number: 1, Term: 9, Master: 5, Message: "its master, member 5, does not serve yet"},
	}
	withMasters.Status.Conditions = append(withMasters.Status.Conditions, metav1.Condition{
		Type: v1alpha1.ConditionPartitionsServing, Status: metav1.ConditionFalse, Reason: "PartitionNotServed",
		Message: "Partition 1: its master",
	})
	unseen := healthy()
	unseen.Status = v1alpha1.GeoRegisterClusterStatus{}
	tests := []struct {
		name           string
		objects        []client.Object
		want, mustLack []string
	}{
		{"healthy", []client.Object{healthy()},
			[]string{
				"shop/first: Gryff, serving, 3/3 members ready", "view: epoch 1, 3 members, 2 are a majority",
				"1  ", "first--b--2-0",
			},
			[]string{"Degraded", "Available is", "AGO"}},
		{"degraded", []client.Object{degraded, event, foreign},
			[]string{
				"serving, degraded", "Degraded is True (MemberSilent): member 3 is silent: dial timed out",
				"was not looked at yet", "member 3 fell silent",
			},
			[]string{"of another cluster", "QuorumHealthy is"}},
		{"down", []client.Object{down},
			[]string{"NOT serving: 1 of 3 members is reached", "Available is False (NoQuorum)"}, nil},
		{"changing", []client.Object{changing},
			[]string{"change since 3m",
				": CatchingUp 63%; joining 4, 5, leaving 2; settled 2/4; fetched 1/2, 1.5 MiB, about 900.0 KiB to " +
					"go: Member 5",
				"joins: votes", "leaves: serves"}, []string{"recovered"}},
		{"a change that begins", []client.Object{starting}, []string{": StartingMembers; joining 4, leaving nobody\n"},
			[]string{"fetched", "%"}},
		{"quorum lost", []client.Object{lost},
			[]string{"first: Gryff, QUORUM LOST", "QuorumLost is True (MembersLost): members 2 and 3"}, nil},
		{"recovered", []client.Object{recovered},
			[]string{
				"serving, 3/3",
				"recovered 60m ago from the lost quorum of epoch 5: member 1 was trusted, given up were 2, 3: " +
					"What only",
			},
			[]string{"QuorumLost is", "change since"}},
		{"with masters", []client.Object{withMasters},
			[]string{"PartitionsServing is False (PartitionNotServed): Partition 1: its master",
				"PARTITION  TERM  MASTER  BACKUPS  WITNESSES  FAST  UNSYNCED  STATE",
				"\n0          3     1       3        4          80%   7         serves\n",
				"\n1          9     5       nobody   nobody     -     -         NOT served: its master, member 5, " +
					"does not serve yet\n"}, nil},
		{"never seen", []client.Object{unseen}, []string{"no operator has looked at it yet"}, []string{"MEMBER"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var out bytes.Buffer
			if err := connect(t, nil, tt.objects...).Status(t.Context(), &out, ""); err != nil {
				t.Fatal(err)
			}
			for _, want := range tt.want {
				if !strings.Contains(out.String(), want) {
					t.Errorf("lacks %q:\n%s", want, out.String())
				}
			}
			for _, lack := range tt.mustLack {
				if strings.Contains(out.String(), lack) {
					t.Errorf("has %q:\n%s", lack, out.String())
				}
			}
		})
	}
}

func TestClusterIsNamed(t *testing.T) {
	second := healthy()
	second.Name = "second"
	for _, tt := range []struct {
		name    string
		objects []client.Object
		want    string
	}{
		{"", nil, "namespace shop has no cluster"},
		{"", []client.Object{healthy(), second}, `name one of ["first" "second"]`},
		{"third", []client.Object{healthy()}, `has no cluster third; it has ["first"]`},
	} {
		_, err := connect(t, nil, tt.objects...).cluster(t.Context(), tt.name)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("cluster %q of %d: %v; want %s", tt.name, len(tt.objects), err, tt.want)
		}
	}
}

func TestSites(t *testing.T) {
	var out bytes.Buffer
	if err := connect(t, nil, healthy()).Sites(t.Context(), &out, "first"); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "b:6379") || !strings.Contains(out.String(), "2 on node-b (serves)") {
		t.Errorf("got:\n%s", out.String())
	}
}

func TestSitesThatLeave(t *testing.T) {
	c := healthy()
	c.Status.Sites = c.Status.Sites[:2]
	c.Status.Change = &v1alpha1.ChangeStatus{Step: v1alpha1.CatchingUp, Leaving: []int32{3}}
	var out bytes.Buffer
	if err := connect(t, nil, c).Sites(t.Context(), &out, "first"); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "3 on node-c (leaves: serves)") || strings.Count(out.String(), "\n") != 4 {
		t.Errorf("got:\n%s", out.String())
	}
}

func TestLogsAreMerged(t *testing.T) {
	var out bytes.Buffer
	k := connect(t, nil, healthy(), member(0), member(1), member(2))
	if err := k.Logs(t.Context(), &out, "first", LogOptions{Tail: -1}); err != nil {
		t.Fatal(err)
	}
	for i := range sites {
		if want := "[" + member(i).Name + "] fake logs\n"; !strings.Contains(out.String(), want) {
			t.Errorf("lacks %q:\n%s", want, out.String())
		}
	}
	out.Reset()
	if err := k.Logs(t.Context(), &out, "first", LogOptions{Site: "b", Tail: -1}); err != nil ||
		strings.Count(out.String(), "\n") != 1 {
		t.Errorf("logs of one site: %v\n%s", err, out.String())
	}
	if err := k.Logs(t.Context(), &out, "first", LogOptions{Site: "nowhere"}); err == nil {
		t.Error("a site without pods is no error")
	}
}

func TestOperator(t *testing.T) {
	two := int32(2)
	operator := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: "op", Labels: map[string]string{build.NameLabel: build.OperatorName},
		},
		Spec: appsv1.DeploymentSpec{Replicas: &two, Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Image: "georegister:v1"}},
		}}},
		Status: appsv1.DeploymentStatus{UpdatedReplicas: 2, ReadyReplicas: 2},
	}
	half := operator.DeepCopy()
	half.Status.ReadyReplicas = 1
	var out bytes.Buffer
	if err := connect(t, nil, operator).Operator(t.Context(), &out); err != nil ||
		!strings.Contains(out.String(), "2 of 2 pods are ready, georegister:v1") {
		t.Errorf("%v\n%s", err, out.String())
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := connect(t, nil, half).Operator(ended, &out); err == nil ||
		!strings.Contains(err.Error(), "1 of 2 pods are ready") {
		t.Errorf("half of the pods: %v", err)
	}
	if err := connect(t, nil).Operator(ended, &out); err == nil ||
		!strings.Contains(err.Error(), "no Deployment labelled") {
		t.Errorf("no operator: %v", err)
	}
}

func TestVerify(t *testing.T) {
	store := &listenertest.Memory{Delay: time.Millisecond}
	k := connect(t, nil, healthy(), member(0), member(1), member(2))
	k.Forward = serve(t, store)
	var out bytes.Buffer
	options := VerifyOptions{Duration: time.Second, Clients: 1}
	if err := k.Verify(t.Context(), &out, "first", options); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	keys := map[string]bool{}
	for _, op := range store.Submitted() {
		keys[op.Key] = true
		if !strings.HasPrefix(op.Key, "georegister-verify/") {
			t.Fatalf("key %q is not its own", op.Key)
		}
	}
	// order is irrelevant: each is looked at for itself
	for key := range keys {
		if value := store.Value(key); value != nil {
			t.Errorf("key %q is left behind with %q", key, value)
		}
	}
	if len(keys) < 10 {
		t.Errorf("only %d keys were used", len(keys))
	}
}

func TestVerifyFindsLostWrites(t *testing.T) {
	store := &listenertest.Memory{Delay: time.Millisecond, Intercept: listenertest.LoseWrites}
	k := connect(t, nil, healthy(), member(0), member(1), member(2))
	k.Forward = serve(t, store)
	err := k.Verify(t.Context(), &bytes.Buffer{}, "first", VerifyOptions{Duration: time.Second, Clients: 1})
	if err == nil || !strings.Contains(err.Error(), "verdict") {
		t.Errorf("a store that loses writes: %v", err)
	}
}

func TestVerifyNeedsEverySite(t *testing.T) {
	k := connect(t, nil, healthy(), member(0), member(2))
	k.Forward = serve(t, &listenertest.Memory{})
	err := k.Verify(t.Context(), &bytes.Buffer{}, "first", VerifyOptions{Duration: time.Second, Clients: 1})
	if err == nil || !strings.Contains(err.Error(), "site b of cluster first has no ready pod") {
		t.Errorf("got %v", err)
	}
}

// serve forwards to a gRPC listener over the store.
func serve(t *testing.T, store operation.Store) Forwarder {
	return func(context.Context, string, int) (string, func(), error) { return loopback.Serve(t, store) }
}
