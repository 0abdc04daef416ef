// Package plugin is what `kubectl georegister` does: it looks at clusters through the apiserver, with the rights of
// whoever runs it, and asks the operator nothing.
package plugin

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/controllers/build"
)

// Flags say which apiserver and namespace to talk to, as kubectl's own do. Empty ones take the kubeconfig's.
type Flags struct {
	Kubeconfig string
	Context    string
	Namespace  string
}

// Kubernetes is a connection to an apiserver.
type Kubernetes struct {
	Client client.Client
	// Pods streams logs.
	Pods kubernetes.Interface
	// Forward opens a loopback address that leads to a port of a pod of the namespace.
	Forward   Forwarder
	Namespace string
}

// Connect reads the kubeconfig, or inside a pod the service account; nothing is sent yet.
func (f Flags) Connect() (*Kubernetes, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = f.Kubeconfig
	overrides := &clientcmd.ConfigOverrides{CurrentContext: f.Context}
	overrides.Context.Namespace = f.Namespace
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides)
	config, err := loader.ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig: %w", err)
	}
	config.UserAgent = "kubectl-georegister"
	namespace, _, err := loader.Namespace()
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig's namespace: %w", err)
	}
	scheme, err := newScheme()
	if err != nil {
		return nil, err
	}
	typed, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("connect to the apiserver: %w", err)
	}
	pods, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connect to the apiserver: %w", err)
	}
	return &Kubernetes{Client: typed, Pods: pods, Forward: forwarder(config, pods, namespace),
		Namespace: namespace}, nil
}

func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	all := runtime.NewSchemeBuilder(clientgoscheme.AddToScheme, v1alpha1.AddToScheme)
	if err := all.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("register the kinds of Kubernetes and of Georegister: %w", err)
	}
	return scheme, nil
}

// clusters lists the clusters of the namespace by name.
func (k *Kubernetes) clusters(ctx context.Context) ([]v1alpha1.GeoRegisterCluster, error) {
	var list v1alpha1.GeoRegisterClusterList
	err := k.Client.List(ctx, &list, client.InNamespace(k.Namespace))
	if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
		return nil,
			fmt.Errorf("the apiserver has no %s of %s: install the operator with its CRD, such as by `helm install`",
				v1alpha1.Kind, v1alpha1.APIVersion)
	}
	if err != nil {
		return nil, fmt.Errorf("list the clusters of namespace %s: %w", k.Namespace, err)
	}
	return list.Items, nil
}

// cluster is the one of a name, or the only one of the namespace if no name is given.
func (k *Kubernetes) cluster(ctx context.Context, name string) (*v1alpha1.GeoRegisterCluster, error) {
	all, err := k.clusters(ctx)
	if err != nil {
		return nil, err
	}
	var names []string
	for i := range all {
		if all[i].Name == name || name == "" && len(all) == 1 {
			return &all[i], nil
		}
		names = append(names, all[i].Name)
	}
	switch {
	case len(all) == 0:
		return nil, fmt.Errorf("namespace %s has no cluster; -n names another one", k.Namespace)
	case name == "":
		return nil, fmt.Errorf("namespace %s has several clusters; name one of %q", k.Namespace, names)
	}
	return nil, fmt.Errorf("namespace %s has no cluster %s; it has %q", k.Namespace, name, names)
}

// memberPods are the pods of a cluster's members and dedicated witnesses, or of one site's; empty names stand for all.
func (k *Kubernetes) memberPods(ctx context.Context, cluster, site string) ([]corev1.Pod, error) {
	labels := client.MatchingLabels{build.NameLabel: build.Application}
	if cluster != "" {
		labels[build.ClusterLabel] = cluster
	}
	if site != "" {
		labels[build.SiteLabel] = site
	}
	return k.pods(ctx, labels)
}

func (k *Kubernetes) pods(ctx context.Context, labels client.MatchingLabels) ([]corev1.Pod, error) {
	var pods corev1.PodList
	if err := k.Client.List(ctx, &pods, client.InNamespace(k.Namespace), labels); err != nil {
		return nil, fmt.Errorf("list the pods of namespace %s with the labels %v: %w", k.Namespace, labels, err)
	}
	return pods.Items, nil
}

// isWitness reports whether a pod is a dedicated witness's.
func isWitness(pod *corev1.Pod) bool {
	return pod.Labels[build.ComponentLabel] == build.WitnessComponent
}

// poll asks every interval until it is done or ctx ends; the error then has the last reason.
func poll(ctx context.Context, interval time.Duration, ask func() (done bool, reason string, err error)) error {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		done, reason, err := ask()
		if err != nil || done {
			return err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", reason, context.Cause(ctx))
		}
	}
}
