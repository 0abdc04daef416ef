package chaos

import "k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

// Workflow does experiments one after the other. Each is: inject for DURATION, and once it has settled ask PEER for its
// quorum, at the same time; heal, settle, and ask both PEER and SITE. A quorum that is not there for a minute aborts
// the Workflow. All experiments are templates of it, whether they are named or not, so that it can be edited.
func Workflow(names []string, p Parameters) (*unstructured.Unstructured, error) {
	for _, name := range names {
		if err := known(name); err != nil {
			return nil, err
		}
	}
	return fill(workflow(names), p), nil
}

// Repeated is a Workflow that does one experiment as its Schedule says, for a time such as 10m, and then heals, settles
// and asks for the quorum. It ends by itself, whoever started it.
func Repeated(name, lasts string, p Parameters) (*unstructured.Unstructured, error) {
	if err := known(name); err != nil {
		return nil, err
	}
	object := assemble([]any{"before", name, "after"}, append(shared(), map[string]any{
		"name": name, "templateType": "Schedule", "deadline": lasts, "schedule": manifest(name)["spec"],
	}))
	return fill(object, p), nil
}

// workflow is Workflow without parameters.
func workflow(names []string) map[string]any {
	children := []any{"before"}
	for _, name := range names {
		children = append(children, name)
	}
	templates := shared()
	for _, e := range List() {
		templates = append(templates, inject(e.Name)...)
	}
	return assemble(children, templates)
}

func assemble(children, templates []any) map[string]any {
	entry := map[string]any{"name": "chaos", "templateType": "Serial", "children": children}
	return map[string]any{
		"apiVersion": "chaos-mesh.org/v1alpha1",
		"kind":       "Workflow",
		"metadata": map[string]any{
			"name": "CLUSTER-chaos", "namespace": "NAMESPACE",
			"labels": map[string]any{
				"app.kubernetes.io/name": Application, "georegister.io/cluster": "CLUSTER", ExperimentLabel: "chaos",
			},
		},
		"spec": map[string]any{"entry": "chaos", "templates": append([]any{entry}, templates...)},
	}
}

// inject are the templates of an experiment; the one with its name is all of it.
func inject(name string) []any {
	schedule, _ := manifest(name)["spec"].(map[string]any)
	kind, _ := schedule["type"].(string)
	spec, _ := schedule[specFields[kind]].(map[string]any)
	delete(spec, "duration") // a node of a Workflow has a deadline instead
	return []any{
		map[string]any{"name": name, "templateType": "Serial", "children": []any{name + "-both", "after"}},
		map[string]any{
			"name": name + "-both", "templateType": "Parallel", "children": []any{name + "-inject", "during"},
		},
		map[string]any{"name": name + "-inject", "templateType": kind, "deadline": "DURATION", specFields[kind]: spec},
	}
}

// specFields are where a kind's specification is in Schedules and Workflows.
var specFields = map[string]string{
	"PodChaos": "podChaos", "NetworkChaos": "networkChaos", "IOChaos": "ioChaos", "TimeChaos": "timeChaos",
	"StressChaos": "stressChaos",
}

// shared are the templates that all experiments use.
func shared() []any {
	serial := func(name string, children ...any) any {
		return map[string]any{"name": name, "templateType": "Serial", "children": children}
	}
	return []any{
		serial("before", "peer-quorum", "site-quorum"),
		serial("during", "settle", "peer-quorum"),
		serial("after", "settle", "peer-quorum", "site-quorum"),
		map[string]any{"name": "settle", "templateType": "Suspend", "deadline": "SETTLE"},
		quorum("peer-quorum", "PEER_QUORUM"),
		quorum("site-quorum", "SITE_QUORUM"),
	}
}

// quorum asks members whether they reach a quorum: three times in a row they must, and not for a minute they must not.
func quorum(name, url string) any {
	return map[string]any{
		"name": name, "templateType": "StatusCheck", "abortWithStatusCheck": true,
		"statusCheck": map[string]any{
			"mode": "Synchronous", "type": "HTTP", "intervalSeconds": int64(2), "timeoutSeconds": int64(3),
			"failureThreshold": int64(30), "successThreshold": int64(3), "duration": "3m",
			"http": map[string]any{"url": url, "method": "GET", "criteria": map[string]any{"statusCode": "200"}},
		},
	}
}
