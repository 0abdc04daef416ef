package controllers

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	expiring "k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/controllers/apply"
	"github.com/georegister/georegister/controllers/build"
	"github.com/georegister/georegister/controllers/chaosmesh"
)

// New returns an operator, ready to be started: its Start returns when the context ends. It asks the apiserver which
// kinds there are and what may be read, and waits for one that is away.
func New(ctx context.Context, config *rest.Config, o Options) (manager.Manager, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	scheme, err := newScheme()
	if err != nil {
		return nil, err
	}
	m, err := manager.New(config, manager.Options{
		Scheme: scheme, Logger: o.Log,
		Cache: cacheOptions(o.Namespaces),
		Client: client.Options{
			FieldOwner: string(apply.Owner),
			// Writes to several namespaces can't be waited for (controller-runtime); a stale read costs a refused
			// write.
			Cache: &client.CacheOptions{EnableReadYourWritesConsistency: new(len(o.Namespaces) <= 1)},
		},
		Metrics:                server.Options{BindAddress: o.MetricsAddress},
		HealthProbeBindAddress: o.HealthAddress,
	})
	if err != nil {
		return nil, fmt.Errorf("set up the operator: %w", err)
	}
	if err := addProbes(m); err != nil {
		return nil, err
	}
	r, err := newReconciler(ctx, m, o)
	if err != nil {
		return nil, err
	}
	return m, r.watch(ctx, m)
}

func newReconciler(ctx context.Context, m manager.Manager, o Options) (*Reconciler, error) {
	if o.Registry == nil {
		o.Registry = ctrlmetrics.Registry
	}
	kinds, err := newOptional(m, o.DiscoverEvery)
	if err != nil {
		return nil, err
	}
	var places bool
	if err := patiently(ctx, o.Log, func() (err error) {
		places, err = mayRead(ctx, m.GetAPIReader(), &corev1.NodeList{}, &corev1.PersistentVolumeList{})
		return err
	}); err != nil {
		return nil, err
	}
	if !places {
		o.Log.Info("Went without nodes and volumes, which may not be read: zones stay unknown, and a member whose " +
			"node is gone is not replaced")
	}
	lease, err := newElection(m, o)
	if err != nil {
		return nil, err
	}
	to := &access{
		options: o, client: m.GetClient(), live: m.GetAPIReader(), applier: apply.New(m.GetClient(), m.GetAPIReader()),
		slots: make(slots, o.MaxConcurrent), now: time.Now,
	}
	return &Reconciler{
		access: to,
		observer: observer{access: to, optional: kinds, injections: m.GetCache(), watched: watched(m.GetCache()),
			places: places, warnings: expiring.NewExpiring()},
		executor: executor{access: to, events: events{m.GetEventRecorder("georegister-operator")}},
		metrics:  newMetrics(o.Registry), election: lease,
	}, nil
}

// newScheme knows the kinds whose content is read, and evictions. Of all others, metadata is read.
func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	known := runtime.SchemeBuilder{corev1.AddToScheme, appsv1.AddToScheme, policyv1.AddToScheme, v1alpha1.AddToScheme}
	if err := known.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("set up the scheme: %w", err)
	}
	return scheme, nil
}

// cacheOptions keep what is cached small: the watched namespaces, and there the operator's own objects.
func cacheOptions(namespaces []string) cache.Options {
	ours := labels.SelectorFromSet(labels.Set{build.ManagedByLabel: build.Application})
	everything := cache.ByObject{Label: labels.Everything()}
	o := cache.Options{
		DefaultLabelSelector: ours,
		DefaultTransform:     strip, // by kind: those that the apiserver may lack can't be named below
		ByObject: map[client.Object]cache.ByObject{
			&v1alpha1.GeoRegisterCluster{}: everything,
			&corev1.Node{}:                 {Label: labels.Everything(), Transform: stripNode},
			&corev1.PersistentVolume{}:     {Label: labels.Everything(), Transform: stripVolume},
		},
	}
	if len(namespaces) > 0 {
		o.DefaultNamespaces = map[string]cache.Config{}
		for _, n := range namespaces {
			o.DefaultNamespaces[n] = cache.Config{}
		}
	}
	return o
}

// strip keeps of an object what is read.
func strip(object any) (any, error) {
	if chaosmesh.IsObject(object) {
		chaosmesh.Strip(object.(*unstructured.Unstructured))
		return object, nil
	}
	return cache.TransformStripManagedFields()(object)
}

// stripNode keeps of a node where it is, and whether it is about to be emptied.
func stripNode(object any) (any, error) {
	if n, ok := object.(*corev1.Node); ok {
		n.ManagedFields, n.Annotations = nil, nil
		n.Spec = corev1.NodeSpec{Unschedulable: n.Spec.Unschedulable}
		n.Status = corev1.NodeStatus{}
	}
	return object, nil
}

// stripVolume keeps of a volume where it is.
func stripVolume(object any) (any, error) {
	if v, ok := object.(*corev1.PersistentVolume); ok {
		v.ManagedFields, v.Annotations = nil, nil
		v.Spec = corev1.PersistentVolumeSpec{NodeAffinity: v.Spec.NodeAffinity}
	}
	return object, nil
}

// askAgainAfter is the pause before an apiserver that was away is asked again.
const askAgainAfter = 2 * time.Second

// patiently asks the apiserver until it answers, and says in the log what it waits for.
func patiently(ctx context.Context, log logr.Logger, ask func() error) error {
	for {
		err := ask()
		if err == nil || ctx.Err() != nil || !away(err) {
			return err
		}
		log.Info("Waits for the apiserver, and asks again", "after", askAgainAfter.String(), "reason", err.Error())
		select {
		case <-ctx.Done():
			return err
		case <-time.After(askAgainAfter):
		}
	}
}

// away reports whether an error says that the apiserver did not answer, or can't do so now.
func away(err error) bool {
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) {
		return true
	}
	code := answer.Status().Code
	return code >= http.StatusInternalServerError || code == http.StatusTooManyRequests
}

// mayRead reports whether all of the kinds may be listed.
func mayRead(ctx context.Context, reader client.Reader, kinds ...client.ObjectList) (bool, error) {
	for _, kind := range kinds {
		err := reader.List(ctx, kind, client.Limit(1))
		if apierrors.IsForbidden(err) {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("find out whether %T may be read: %w", kind, err)
		}
	}
	return true, nil
}

// addProbes adds /healthz, the process is there, and /readyz, its caches are filled. Operators that wait for the
// lease are ready.
func addProbes(m manager.Manager) error {
	if err := m.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return fmt.Errorf("add /healthz: %w", err)
	}
	err := m.AddReadyzCheck("caches", func(request *http.Request) error {
		ctx, cancel := context.WithTimeout(request.Context(), time.Second)
		defer cancel()
		if !m.GetCache().WaitForCacheSync(ctx) {
			return errors.New("the caches are not filled yet: can the apiserver be reached, and is the Role bound?")
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("add /readyz: %w", err)
	}
	return nil
}
