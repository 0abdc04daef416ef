package plugin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/georegister/georegister/config/chaos"
	"github.com/georegister/georegister/controllers/build"
)

// progress tells what is new of the Workflow's nodes: each thing once.
func (r *chaosRun) progress(ctx context.Context) error {
	nodes, err := r.listChaos(ctx, workflowNodeKind, client.MatchingLabels{workflowLabel: r.workflow.GetName()})
	if err != nil {
		return err
	}
	slices.SortStableFunc(nodes, func(a, b unstructured.Unstructured) int {
		return cmp.Or(a.GetCreationTimestamp().Compare(b.GetCreationTimestamp().Time),
			strings.Compare(a.GetName(), b.GetName()))
	})
	for i := range nodes {
		news, err := r.news(ctx, &nodes[i])
		if err != nil {
			return err
		}
		for _, line := range news {
			if key := nodes[i].GetName() + line; !r.told[key] {
				r.told[key] = true
				r.say("%s", line)
			}
		}
	}
	return nil
}

// news are what there is to say of a node.
func (r *chaosRun) news(ctx context.Context, node *unstructured.Unstructured) ([]string, error) {
	template := read(node).Spec.TemplateName
	experiment := strings.TrimSuffix(template, "-inject")
	over := isTrue(node, "Accomplished") || isTrue(node, "DeadlineExceed") || isTrue(node, "Aborted")
	switch read(node).Spec.Type {
	case "Serial", "Parallel", "Suspend":
		return nil, nil
	case "StatusCheck":
		if isTrue(node, "Aborted") {
			r.aborted = true
			return []string{fmt.Sprintf("%s: NOT there for a minute; what was left is not injected", template)}, nil
		}
		if over {
			return []string{template + ": there"}, nil
		}
		return nil, nil
	}
	injected, err := r.injected(ctx, node)
	if err != nil {
		return nil, err
	}
	var lines []string
	for _, what := range injected {
		r.done[experiment] = true
		lines = append(lines, fmt.Sprintf("%s: injected: %s", experiment, what))
	}
	switch {
	case over && r.done[experiment]:
		lines = append(lines, experiment+": healed")
	case over:
		lines = append(lines, experiment+": NOT injected into all that it should hit")
	}
	return lines, nil
}

// injected tells which pods a node of a Workflow has injected something into, for each time that it did.
func (r *chaosRun) injected(ctx context.Context, node *unstructured.Unstructured) ([]string, error) {
	made := read(node).Status.ChaosResource
	kind, name := made.Kind, made.Name
	if kind == "" || name == "" {
		return nil, nil
	}
	var objects []unstructured.Unstructured
	if kind == scheduleKind.Kind {
		// In a Schedule itself this field is a text.
		what, _, _ := unstructured.NestedString(node.Object, "spec", "schedule", "type")
		var err error
		if objects, err = r.listChaos(ctx, chaosGroup.WithKind(what),
			client.MatchingLabels{managedByLabel: name}); err != nil {
			return nil, err
		}
	} else {
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(chaosGroup.WithKind(kind))
		err := r.Client.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: name}, object)
		switch {
		case apierrors.IsNotFound(err):
			return nil, nil // healed since
		case err != nil:
			return nil, fmt.Errorf("read %s %s: %w", kind, name, err)
		}
		objects = append(objects, *object)
	}
	var all []string
	for i := range objects {
		if pods := hit(&objects[i]); len(pods) > 0 {
			all = append(all, fmt.Sprintf("%s (%s)", strings.Join(pods, ", "), objects[i].GetName()))
		}
	}
	return all, nil
}

// hit are the pods of an object of Chaos Mesh that are injected, or were, once all of them are.
func hit(object *unstructured.Unstructured) []string {
	if !isTrue(object, "AllInjected") {
		return nil
	}
	var pods []string
	for _, record := range read(object).Status.Experiment.ContainerRecords {
		if parts := strings.Split(record.ID, "/"); len(parts) > 1 {
			pods = append(pods, parts[1])
		}
	}
	slices.Sort(pods)
	return slices.Compact(pods)
}

// StopChaos heals and deletes all of a run. If none is named, it heals and ends all that goes on in the namespace, also
// what the manifests of config/chaos made, which belongs to no run; verifications that are over stay.
func (k *Kubernetes) StopChaos(ctx context.Context, out io.Writer, run string) error {
	kinds := []schema.GroupVersionKind{workflowKind, scheduleKind, {Group: "batch", Version: "v1", Kind: "Job"}}
	labels := client.MatchingLabels{chaos.RunLabel: run}
	if run == "" {
		labels = client.MatchingLabels{build.NameLabel: chaos.Application}
	}
	var deleted []unstructured.Unstructured
	var errs []error
	for _, kind := range kinds {
		objects, err := k.listChaos(ctx, kind, labels)
		errs = append(errs, err)
		for i := range objects {
			if run == "" && (isTrue(&objects[i], "Complete") || isTrue(&objects[i], "Failed")) {
				continue
			}
			errs = append(errs, k.delete(ctx, &objects[i]))
			fmt.Fprintf(out, "%s %s is deleted\n", kind.Kind, objects[i].GetName())
			deleted = append(deleted, objects[i])
		}
	}
	if len(deleted) == 0 && errors.Join(errs...) == nil {
		fmt.Fprintf(out, "namespace %s has no chaos to stop\n", k.Namespace)
		return nil
	}
	ctx, cancel := Within(ctx, healsWithin)
	defer cancel()
	for i := range deleted {
		switch deleted[i].GetKind() {
		case workflowKind.Kind:
			errs = append(errs, k.gone(ctx, workflowNodeKind, workflowLabel, deleted[i].GetName()))
		case scheduleKind.Kind:
			made := chaosGroup.WithKind(read(&deleted[i]).Spec.Type)
			errs = append(errs, k.gone(ctx, made, managedByLabel, deleted[i].GetName()))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	fmt.Fprintln(out, "healed: nothing is injected any more")
	return nil
}

// gone waits until nothing is left of what a deleted Workflow or Schedule made, by its kind and the label that names
// who made it. Everything stays until what it injected was taken back, and a Workflow's nodes until what they made is
// gone.
func (k *Kubernetes) gone(ctx context.Context, kind schema.GroupVersionKind, label, maker string) error {
	return poll(ctx, pollEvery, func() (bool, string, error) {
		left, err := k.listChaos(ctx, kind, client.MatchingLabels{label: maker})
		if err != nil || len(left) == 0 {
			return err == nil, "", err
		}
		return false, fmt.Sprintf("not healed yet: %s %s and %d more are still there; docs/chaos.md says what to do "+
			"where the node's daemon is gone", kind.Kind, left[0].GetName(), len(left)-1), nil
	})
}
