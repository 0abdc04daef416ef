package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/test/apiserver"
)

const (
	operatorUser      = "scale-operator"
	operatorNamespace = "georegister-system"

	// clustersPerNamespace and nodesPerSite are those of a platform with some tenants.
	clustersPerNamespace = 10
	nodesPerSite         = 10

	// retryAfter is the pause of a stand-in after a lost race.
	retryAfter = 50 * time.Millisecond
)

// sites are those of every cluster, each with one member.
var sites = []string{"ca", "va", "ir", "or", "jp"}

// world is an apiserver with stand-ins for what runs pods, and the clusters made in it.
type world struct {
	environment *envtest.Environment
	auditLog    string
	api         client.Client // reads from the apiserver
	kubelet     *kubelet
	cancel      context.CancelFunc
	work        sync.WaitGroup
	failed      chan error // why the stand-ins ended

	mu        sync.Mutex
	created   map[types.NamespacedName]time.Time
	available map[types.NamespacedName]time.Time
}

// newWorld starts an apiserver, which keeps its files in a directory, with nodes and stand-ins. Root is the project's
// directory.
func newWorld(ctx context.Context, root, directory string) (*world, error) {
	w := &world{
		failed: make(chan error, 1), cancel: func() {},
		created: map[types.NamespacedName]time.Time{}, available: map[types.NamespacedName]time.Time{},
	}
	var err error
	if w.environment, w.auditLog, err = apiserver.Start(root, directory, operatorUser); err != nil {
		return nil, err
	}
	if err := w.populate(ctx, root); err != nil {
		return nil, errors.Join(err, w.stop())
	}
	return w, nil
}

func (w *world) populate(ctx context.Context, root string) error {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, appsv1.AddToScheme, rbacv1.AddToScheme, v1alpha1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	config := rest.CopyConfig(w.environment.Config)
	config.QPS = -1 // the stand-ins are as fast as the apiserver lets them
	var err error
	if w.api, err = client.New(config, client.Options{Scheme: scheme}); err != nil {
		return err
	}
	if err := errors.Join(w.addNodes(ctx), w.bind(ctx, root)); err != nil {
		return err
	}
	m, err := manager.New(config, manager.Options{
		Scheme: scheme, Metrics: server.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
	})
	if err != nil {
		return err
	}
	if w.kubelet, err = newKubelet(m); err != nil {
		return err
	}
	if err := builder.ControllerManagedBy(m).For(&v1alpha1.GeoRegisterCluster{}).
		Complete(w.watcher(m.GetClient())); err != nil {
		return err
	}
	ctx, w.cancel = context.WithCancel(ctx)
	w.work.Go(func() {
		if err := m.Start(ctx); err != nil {
			w.failed <- err
		}
	})
	return nil
}

// watcher notes when a cluster was first available.
func (w *world) watcher(cached client.Reader) reconcile.Reconciler {
	return reconcile.Func(func(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
		cluster := &v1alpha1.GeoRegisterCluster{}
		if err := cached.Get(ctx, request.NamespacedName, cluster); err != nil {
			return reconcile.Result{}, client.IgnoreNotFound(err)
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		if meta.IsStatusConditionTrue(cluster.Status.Conditions, v1alpha1.ConditionAvailable) &&
			w.available[request.NamespacedName].IsZero() {
			w.available[request.NamespacedName] = time.Now()
		}
		return reconcile.Result{}, nil
	})
}

func (w *world) addNodes(ctx context.Context) error {
	for _, site := range sites {
		for i := range nodesPerSite {
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName(site, i), Labels: map[string]string{
				corev1.LabelTopologyZone: site, corev1.LabelHostname: nodeName(site, i),
			}}}
			if err := w.api.Create(ctx, node); err != nil {
				return err
			}
			node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
			if err := w.api.Status().Update(ctx, node); err != nil {
				return err
			}
		}
	}
	return nil
}

// bind lets the operator's user do what the generated roles say, everywhere, and hold its lease.
func (w *world) bind(ctx context.Context, root string) error {
	if err := w.addNamespace(ctx, operatorNamespace); err != nil {
		return err
	}
	user := []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: operatorUser}}
	for _, name := range []string{"georegister-operator", "georegister-operator-nodes"} {
		role, err := apiserver.Role(root, name)
		if err != nil {
			return err
		}
		binding := &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Subjects: user,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		}
		if err := errors.Join(w.api.Create(ctx, role), w.api.Create(ctx, binding)); err != nil {
			return err
		}
	}
	text, err := os.ReadFile(filepath.Join(root, "config", "rbac", "leader_election_role.yaml"))
	if err != nil {
		return err
	}
	role := &rbacv1.Role{}
	if err := yaml.Unmarshal(text, role); err != nil {
		return fmt.Errorf("leader_election_role.yaml: %w", err)
	}
	role.Namespace = operatorNamespace
	return errors.Join(w.api.Create(ctx, role), w.api.Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: operatorNamespace, Name: role.Name}, Subjects: user,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
	}))
}

// kubeconfig writes how the operator reaches the apiserver to a file.
func (w *world) kubeconfig(path string) error {
	user, err := w.environment.AddUser(envtest.User{Name: operatorUser}, nil)
	if err != nil {
		return err
	}
	text, err := user.KubeConfig()
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o600)
}

func (w *world) addNamespace(ctx context.Context, name string) error {
	return client.IgnoreAlreadyExists(w.api.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}))
}

// create makes the cluster of a number.
func (w *world) create(ctx context.Context, n int) (types.NamespacedName, error) {
	key := types.NamespacedName{
		Namespace: fmt.Sprintf("tenant-%d", n/clustersPerNamespace), Name: fmt.Sprintf("store-%d", n),
	}
	cluster := &v1alpha1.GeoRegisterCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name},
		Spec:       v1alpha1.GeoRegisterClusterSpec{Protocol: "Gryff"},
	}
	for _, site := range sites {
		cluster.Spec.Sites = append(cluster.Spec.Sites, v1alpha1.Site{Name: site})
	}
	if err := w.addNamespace(ctx, key.Namespace); err != nil {
		return key, err
	}
	w.mu.Lock()
	w.created[key] = time.Now()
	w.mu.Unlock()
	return key, w.api.Create(ctx, cluster)
}

// took is how long the clusters took to be available, of those that are, in no order.
func (w *world) took(keys []types.NamespacedName) (all []time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, key := range keys {
		if at := w.available[key]; !at.IsZero() {
			all = append(all, at.Sub(w.created[key]))
		}
	}
	return all
}

// undisturbed reports a cluster whose view is not the one that it was founded with, or that is not well: nothing
// happened to any.
func (w *world) undisturbed(ctx context.Context) error {
	var all v1alpha1.GeoRegisterClusterList
	if err := w.api.List(ctx, &all); err != nil {
		return err
	}
	for _, c := range all.Items {
		well := meta.IsStatusConditionTrue(c.Status.Conditions, v1alpha1.ConditionAvailable) &&
			meta.IsStatusConditionFalse(c.Status.Conditions, v1alpha1.ConditionDegraded)
		if !well || c.Status.View == nil || c.Status.View.Epoch != 1 {
			return fmt.Errorf("%s is not as it was founded: %+v", c.Name, c.Status)
		}
	}
	return nil
}

func (w *world) stop() error {
	w.cancel()
	w.work.Wait()
	if w.kubelet != nil {
		w.kubelet.members.stop()
	}
	return w.environment.Stop()
}
