package plugin

import (
	"context"
	"fmt"
	"io"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/georegister/georegister/controllers/build"
)

// pollEvery is how often something in the apiserver is looked at that is being waited for.
const pollEvery = time.Second

// Operator tells whether the operator is installed in the namespace: the apiserver has the CRD, and all pods of the
// operator's Deployment are ready. It waits for that as long as ctx lasts, and returns an error that says what is
// missing.
func (k *Kubernetes) Operator(ctx context.Context, out io.Writer) error {
	return poll(ctx, pollEvery, func() (bool, string, error) {
		clusters, err := k.clusters(ctx)
		if err != nil {
			return false, err.Error(), nil
		}
		var list appsv1.DeploymentList
		err = k.Client.List(ctx, &list, client.InNamespace(k.Namespace),
			client.MatchingLabels{build.NameLabel: build.OperatorName})
		if err != nil {
			return false, fmt.Sprintf("list the Deployments of namespace %s: %v", k.Namespace, err), nil
		}
		if len(list.Items) == 0 {
			return false,
				fmt.Sprintf("namespace %s has no Deployment labelled %s=%s; -n names the operator's namespace",
					k.Namespace, build.NameLabel, build.OperatorName), nil
		}
		for _, d := range list.Items {
			if d.Status.ObservedGeneration < d.Generation || d.Status.UpdatedReplicas < wanted(d) ||
				d.Status.ReadyReplicas < wanted(d) {
				return false,
					fmt.Sprintf("Deployment %s: %d of %d pods are ready; see `kubectl describe pods -n %s -l %s=%s`",
						d.Name, d.Status.ReadyReplicas, wanted(d), k.Namespace, build.NameLabel, build.OperatorName),
					nil
			}
		}
		for _, d := range list.Items {
			fmt.Fprintf(out, "operator %s: %d of %d pods are ready, %s\n", d.Name, d.Status.ReadyReplicas, wanted(d),
				d.Spec.Template.Spec.Containers[0].Image)
		}
		fmt.Fprintf(out, "the apiserver has the CRD; this namespace has %d clusters\n", len(clusters))
		return true, "", nil
	})
}

// wanted is how many pods a Deployment should have.
func wanted(d appsv1.Deployment) int32 {
	if d.Spec.Replicas == nil {
		return 1
	}
	return *d.Spec.Replicas
}
