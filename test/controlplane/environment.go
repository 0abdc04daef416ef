//go:build controlplane

// Package controlplane tests the operator against a real kube-apiserver and etcd, with members that run in this
// process. The binaries are those of hack/kubernetes, or of KUBEBUILDER_ASSETS.
package controlplane

import (
	"context"
	"maps"
	"testing"
	"time"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/georegister/georegister/api/v1alpha1"
)

// within bounds every wait. It is generous: it only decides when to give up.
const within = 40 * time.Second

// scheme knows every kind that the tests read.
func scheme(t testing.TB) *runtime.Scheme {
	t.Helper()
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, appsv1.AddToScheme, policyv1.AddToScheme, networkingv1.AddToScheme, rbacv1.AddToScheme,
		storagev1.AddToScheme, eventsv1.AddToScheme, monitoringv1.AddToScheme, v1alpha1.AddToScheme,
	} {
		if err := add(s); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func newClient(t testing.TB, config *rest.Config) client.Client {
	t.Helper()
	c, err := client.New(config, client.Options{Scheme: scheme(t)})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func schemaOf(owner metav1.OwnerReference) schema.GroupVersionKind {
	return schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind)
}

// eventually waits until a condition holds, and fails with what was missing last.
func eventually(t testing.TB, what string, missing func() string) {
	t.Helper()
	eventuallyIn(t, within, what, missing)
}

// eventuallyIn is the same with another bound, for what the operator itself leaves alone for a while.
func eventuallyIn(t testing.TB, within time.Duration, what string, missing func() string) {
	t.Helper()
	deadline := time.Now().Add(within)
	for {
		last := missing()
		if last == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %v: %s", what, within, last)
		}
		time.Sleep(20 * time.Millisecond) // between two looks at the condition
	}
}

// newNamespace makes a namespace for a test. It stays: nothing here removes namespaces.
func newNamespace(t testing.TB, c client.Client) string {
	t.Helper()
	n := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	if err := c.Create(context.Background(), n); err != nil {
		t.Fatal(err)
	}
	return n.Name
}

// addNodes makes the node of every site, each in a zone of its own, and the class of growing volumes.
func addNodes(t testing.TB, c client.Client, sites ...string) {
	t.Helper()
	yes := true
	class := &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{
			Name: "local", Annotations: map[string]string{"storageclass.kubernetes.io/is-default-class": "true"},
		},
		Provisioner: "kubernetes.io/no-provisioner", AllowVolumeExpansion: &yes,
	}
	if err := client.IgnoreAlreadyExists(c.Create(context.Background(), class)); err != nil {
		t.Fatal(err)
	}
	for _, site := range sites {
		addNode(t, c, NodeOf(site), map[string]string{corev1.LabelTopologyZone: site})
	}
}

// addNode makes a node with labels.
func addNode(t testing.TB, c client.Client, name string, labels map[string]string) {
	t.Helper()
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}},
	}
	maps.Copy(node.Labels, labels)
	if err := client.IgnoreAlreadyExists(c.Create(context.Background(), node)); err != nil {
		t.Fatal(err)
	}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	if err := client.IgnoreNotFound(c.Status().Update(context.Background(), node)); err != nil {
		t.Logf("node %s: %v", node.Name, err)
	}
}
