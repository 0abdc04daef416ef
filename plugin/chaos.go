package plugin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/config/chaos"
	"github.com/georegister/georegister/controllers/build"
)

// EveryExperiment names the Workflow of experiments one after the other.
const EveryExperiment = "all"

// ErrChaosFailed is in the error of a run in which the cluster failed: what clients saw is not linearizable, or a
// quorum did not come back. Any other error decides nothing about the cluster.
var ErrChaosFailed = errors.New("the cluster failed")

// ChaosOptions say what a run does. Empty ones are chosen for the cluster.
type ChaosOptions struct {
	Cluster           string
	OperatorNamespace string
	Site              string        // that is hit; default: the last one that a quorum can do without
	Peer              string        // that is not, and must have a quorum all the time; default: the first other one
	Experiments       []string      // of EveryExperiment, in order; default: chaos.Usual
	Duration          time.Duration // of the load
	Every             time.Duration // how often a single experiment injects
	Seed              uint64        // of the load's operations
	Image             string        // of the verification; default: the members'
	Report            string        // file for the verification's log, whose last line is the report; empty: none
}

// Times of a run beside those in which something is injected.
const (
	chaosBegins = 30 * time.Second // the quorum is asked for
	chaosEnds   = 45 * time.Second // the last experiment is healed and has settled, before the load ends
	chaosStep   = 40 * time.Second // an experiment of several settles and is asked about
	leastChaos  = 10 * time.Second // is injected, or it tells nothing
)

// ListChaos prints the experiments that there are.
func ListChaos(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "%s\t%s, one after the other\n", EveryExperiment, strings.Join(chaos.Usual, ", "))
	for _, e := range chaos.List() {
		fmt.Fprintf(w, "%s\t%s\n\t%s\n\t%s\n", e.Name, e.What, e.Parameters, e.Ran)
	}
	return w.Flush()
}

// chaosParameters are those of a run on a cluster, with its times.
func (k *Kubernetes) chaosParameters(
	ctx context.Context, c *v1alpha1.GeoRegisterCluster, o ChaosOptions,
) (p chaos.Parameters, err error) {
	p = chaos.Defaults()
	p.Cluster, p.Namespace, p.Protocol, p.Seed = c.Name, c.Namespace, string(c.Spec.Protocol),
		strconv.FormatUint(o.Seed, 10)
	p.Load = o.Duration.String()
	p.Sites = strings.Join(siteNames(c), ",")
	if p.Site, p.Peer, p.Minority, err = chooseSites(c, o.Site, o.Peer); err != nil {
		return p, err
	}
	p.SiteQuorum = chaos.QuorumURL(c.Name, p.Site, c.Namespace)
	p.PeerQuorum = chaos.QuorumURL(c.Name, p.Peer, c.Namespace)
	if o.OperatorNamespace != "" {
		p.OperatorNamespace = o.OperatorNamespace
	} else {
		p.OperatorNamespace = k.operatorNamespace(ctx, p.OperatorNamespace)
	}
	if p.Image = o.Image; p.Image == "" {
		p.Image, err = k.memberImage(ctx, c.Name)
	}
	return p, err
}

func siteNames(c *v1alpha1.GeoRegisterCluster) []string {
	var names []string
	for _, site := range c.Spec.Sites {
		names = append(names, site.Name)
	}
	return names
}

// chooseSites are the site that is hit, the one that is not, and sites that are a minority together, as many as a
// quorum can do without.
func chooseSites(c *v1alpha1.GeoRegisterCluster, site, peer string) (hit, spared string, minority []string, err error) {
	names := siteNames(c)
	members, total := map[string]int{}, c.Spec.MemberCount()
	for _, s := range c.Spec.Sites {
		members[s.Name] = s.MemberCount()
	}
	for _, given := range []struct{ flag, name string }{{"--site", site}, {"--peer", peer}} {
		if given.name != "" && !slices.Contains(names, given.name) {
			return "", "", nil, fmt.Errorf("%s %s: cluster %s has the sites %s", given.flag, given.name, c.Name,
				strings.Join(names, ", "))
		}
	}
	few := func(n int) bool { return 2*n < total }
	hit = site
	for _, name := range slices.Backward(names) {
		if hit == "" && name != peer && few(members[name]) {
			hit = name
		}
	}
	if hit == "" {
		return "", "", nil,
			fmt.Errorf("cluster %s has no site that its quorum can do without; name the one that is hit by --site",
				c.Name)
	}
	i := slices.IndexFunc(names, func(name string) bool { return name != hit && (peer == "" || name == peer) })
	if i < 0 {
		return "", "", nil,
			fmt.Errorf("cluster %s has no site that is not hit: site %s is; name two different ones by --site "+
				"and --peer", c.Name, hit)
	}
	spared = names[i]
	minority = []string{hit}
	count := members[hit]
	for _, name := range slices.Backward(names) {
		if name != hit && name != spared && few(count+members[name]) {
			minority, count = append(minority, name), count+members[name]
		}
	}
	slices.Sort(minority)
	return hit, spared, minority, nil
}

// operatorNamespace is where the operator is, as far as that can be seen, or else the one of config/default.
func (k *Kubernetes) operatorNamespace(ctx context.Context, fallback string) string {
	labels := client.MatchingLabels{build.NameLabel: build.OperatorName}
	for _, where := range []string{k.Namespace, ""} {
		var list appsv1.DeploymentList
		// Who may not look elsewhere names it by the flag.
		if err := k.Client.List(ctx, &list, client.InNamespace(where), labels); err == nil && len(list.Items) > 0 {
			return list.Items[0].Namespace
		}
	}
	return fallback
}

// memberImage is what the members run.
func (k *Kubernetes) memberImage(ctx context.Context, cluster string) (string, error) {
	pods, err := k.memberPods(ctx, cluster, "")
	if err != nil {
		return "", err
	}
	for _, pod := range pods {
		i := slices.IndexFunc(pod.Spec.Containers, func(c corev1.Container) bool { return c.Name == build.Container })
		if i >= 0 {
			return pod.Spec.Containers[i].Image, nil
		}
	}
	return "", fmt.Errorf("cluster %s has no pods, whose image the verification could run; name one by --image",
		cluster)
}

// chaosExperiments are those that a run injects.
func chaosExperiments(name string, o ChaosOptions) []string {
	switch {
	case name != EveryExperiment:
		return []string{name}
	case len(o.Experiments) == 0:
		return chaos.Usual
	}
	return o.Experiments
}

// chaosWorkflow is what a run injects, so that it is over and healed before the load is.
func chaosWorkflow(name string, p chaos.Parameters, o ChaosOptions) (*unstructured.Unstructured, error) {
	if name != EveryExperiment {
		lasts := o.Duration - chaosBegins - chaosEnds
		if lasts < o.Every+leastChaos {
			return nil, fmt.Errorf("--duration %s is too short to inject every %s; give at least %s",
				o.Duration, o.Every, chaosBegins+chaosEnds+o.Every+leastChaos)
		}
		p.Every, p.Duration = o.Every.String(), (o.Every / 2).String()
		return chaos.Repeated(name, lasts.String(), p)
	}
	names := chaosExperiments(name, o)
	n := time.Duration(len(names))
	each := ((o.Duration-chaosBegins)/n - chaosStep).Truncate(time.Second)
	if each < leastChaos {
		return nil, fmt.Errorf("--duration %s is too short for %d experiments; give at least %s",
			o.Duration, n, chaosBegins+n*(chaosStep+leastChaos))
	}
	p.Duration = each.String()
	return chaos.Workflow(names, p)
}

// kinds of Chaos Mesh. They are used without their types, which would bind the plugin to a version of them.
var (
	chaosGroup       = schema.GroupVersion{Group: "chaos-mesh.org", Version: "v1alpha1"}
	workflowKind     = chaosGroup.WithKind("Workflow")
	workflowNodeKind = chaosGroup.WithKind("WorkflowNode")
	scheduleKind     = chaosGroup.WithKind("Schedule")
)

// Labels that Chaos Mesh puts on what it makes.
const (
	workflowLabel  = "chaos-mesh.org/workflow"
	managedByLabel = "managed-by" // a Schedule
)

// listChaos lists objects of a kind of Chaos Mesh in the namespace.
func (k *Kubernetes) listChaos(
	ctx context.Context, kind schema.GroupVersionKind, labels client.MatchingLabels,
) ([]unstructured.Unstructured, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	err := k.Client.List(ctx, list, client.InNamespace(k.Namespace), labels)
	if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("the apiserver has no %s of %s: install Chaos Mesh first (docs/chaos.md)", kind.Kind,
			kind.GroupVersion())
	}
	if err != nil {
		return nil, fmt.Errorf("list the %ss of namespace %s: %w", kind.Kind, k.Namespace, err)
	}
	return list.Items, nil
}

// content is what is read of an object of Chaos Mesh, of whatever kind.
type content struct {
	Spec struct {
		Type         string `json:"type"`
		TemplateName string `json:"templateName"`
	} `json:"spec"`
	Status struct {
		Conditions    []status `json:"conditions"`
		ChaosResource struct {
			Kind string `json:"kind"`
			Name string `json:"name"`
		} `json:"chaosResource"`
		Experiment struct {
			ContainerRecords []struct {
				ID string `json:"id"` // NAMESPACE/POD, or with /CONTAINER
			} `json:"containerRecords"`
		} `json:"experiment"`
	} `json:"status"`
}

// status is a condition and how it is.
type status struct {
	Type   string `json:"type"`
	Status string `json:"status"`
}

// read leaves empty what an object lacks, or has in another form.
func read(object *unstructured.Unstructured) (c content) {
	_ = runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &c)
	return c
}

// isTrue reports whether a condition of an object of Chaos Mesh is.
func isTrue(object *unstructured.Unstructured, name string) bool {
	return slices.Contains(read(object).Status.Conditions, status{name, "True"})
}
