// Package chaos holds the chaos experiments as manifests, and puts the parameters of a cluster into them: for the
// kubectl plugin, from the same files that kustomize and the Helm chart read.
package chaos

import (
	"embed"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

//go:embed *.yaml
var files embed.FS

// Labels of what is made for an experiment.
const (
	// Application is the value of app.kubernetes.io/name: no selector of members finds it.
	Application     = "georegister-chaos"
	ExperimentLabel = "georegister.io/experiment"
	// RunLabel tells runs of the plugin apart.
	RunLabel = "georegister.io/chaos-run"
)

// Parameters are what the experiments of a cluster are about; parameters.yaml says what each means. The name of a
// parameter in a manifest is its key in capitals, such as PEER_QUORUM for peerQuorum.
type Parameters struct {
	Cluster           string   `json:"cluster"`
	Namespace         string   `json:"namespace"`
	OperatorNamespace string   `json:"operatorNamespace"`
	Protocol          string   `json:"protocol"`
	Image             string   `json:"image"`
	Sites             string   `json:"sites"`
	Site              string   `json:"site"`
	Peer              string   `json:"peer"`
	Minority          []string `json:"minority"`
	SiteQuorum        string   `json:"siteQuorum"`
	PeerQuorum        string   `json:"peerQuorum"`
	Every             string   `json:"every"`
	Duration          string   `json:"duration"`
	Settle            string   `json:"settle"`
	Load              string   `json:"load"`
	Seed              string   `json:"seed"`
	Loss              string   `json:"loss"`
	Delay             string   `json:"delay"`
	Offset            string   `json:"offset"`
	Stress            string   `json:"stress"`
}

// minorityToken is the only parameter that is a list.
const minorityToken = "MINORITY"

// tokens are the parameters by their names in manifests.
func (p Parameters) tokens() map[string]string {
	return map[string]string{
		"CLUSTER": p.Cluster, "NAMESPACE": p.Namespace, "OPERATOR_NAMESPACE": p.OperatorNamespace,
		"PROTOCOL": p.Protocol,
		"IMAGE":    p.Image, "SITES": p.Sites, "SITE": p.Site, "PEER": p.Peer, "SITE_QUORUM": p.SiteQuorum,
		"PEER_QUORUM": p.PeerQuorum, "EVERY": p.Every, "DURATION": p.Duration, "SETTLE": p.Settle, "LOAD": p.Load,
		"SEED": p.Seed, "LOSS": p.Loss, "DELAY": p.Delay, "OFFSET": p.Offset, "STRESS": p.Stress,
	}
}

// QuorumURL is where the members of a site tell whether they reach a quorum: 200 or 503.
func QuorumURL(cluster, site, namespace string) string {
	return fmt.Sprintf("http://%s--%s.%s.svc:8080/quorumz", cluster, site, namespace)
}

// Defaults are the parameters of parameters.yaml: an example of a cluster, and times that suit most.
func Defaults() Parameters {
	var read struct {
		Parameters `json:",inline"`
		APIVersion string         `json:"apiVersion"`
		Kind       string         `json:"kind"`
		Metadata   map[string]any `json:"metadata"`
	}
	decode("parameters", &read)
	return read.Parameters
}

// Verification names the manifest of the Job whose exit status is the verdict.
const Verification = "verify"

// others are the files that are no experiments.
var others = []string{"kustomization", "parameters", "replacements", Verification, "workflow"}

// Usual are the experiments that the Workflow does by default, in this order: those that need nothing special of
// nodes, and disturb no emulated network.
var Usual = []string{
	"kill-replica", "kill-site", "kill-operator", "partition-pair", "partition-site", "partition-minority",
}

// Experiment is one of them, as the comment at the top of its file describes it.
type Experiment struct {
	Name       string
	What       string // it does, and what must not happen
	Parameters string // that it has, and what they mean
	Ran        string // whether it was run on a real cluster
}

// List are all experiments by name.
func List() (all []Experiment) {
	for _, file := range must(files.ReadDir(".")) {
		if name := strings.TrimSuffix(file.Name(), ".yaml"); !slices.Contains(others, name) {
			all = append(all, describe(name, text(name)))
		}
	}
	return all
}

// text is an embedded file.
func text(name string) string { return string(must(files.ReadFile(name + ".yaml"))) }

// decode reads an embedded file, and refuses fields that it should not have.
func decode(name string, into any) {
	must(into, yaml.UnmarshalStrict([]byte(text(name)), into))
}

// must is a value without its error: what is read was embedded, and a test reads all of it.
func must[T any](value T, err error) T {
	if err != nil {
		panic(fmt.Sprintf("chaos: an embedded file: %v", err))
	}
	return value
}

// describe reads the comment: what it does, its parameters, and, last, whether it was run.
func describe(name, text string) Experiment {
	e := Experiment{Name: name}
	section := &e.What
	for line := range strings.Lines(text) {
		comment, isComment := strings.CutPrefix(line, "# ")
		if !isComment {
			break
		}
		comment = strings.TrimSpace(comment)
		switch {
		case strings.HasPrefix(comment, "Parameters: "):
			section, comment = &e.Parameters, strings.TrimPrefix(comment, "Parameters: ")
		case strings.HasPrefix(comment, "Dry-run only: "), strings.HasPrefix(comment, "Run "):
			section = &e.Ran
		}
		*section = strings.TrimSpace(*section + " " + comment)
	}
	return e
}

// Manifest is the Schedule of an experiment of the List, or the Job of the Verification.
func Manifest(name string, p Parameters) *unstructured.Unstructured { return fill(manifest(name), p) }

// known refuses a name that no experiment has.
func known(name string) error {
	var names []string
	for _, e := range List() {
		names = append(names, e.Name)
	}
	if slices.Contains(names, name) {
		return nil
	}
	return fmt.Errorf("there is no experiment %s; there are: %s", name, strings.Join(names, ", "))
}

// manifest is a Schedule or the Job without parameters.
func manifest(name string) (object map[string]any) {
	decode(name, &object)
	return object
}

// fill puts parameters in the place of their names.
func fill(object map[string]any, p Parameters) *unstructured.Unstructured {
	filled, _ := replace(object, p.tokens(), p.Minority).(map[string]any)
	return &unstructured.Unstructured{Object: filled}
}

// token is what may be the name of a parameter.
var token = regexp.MustCompile(`\b[A-Z][A-Z_]*\b`)

// replace is a copy of a value of JSON with parameters in the place of their names. What looks like one and is none,
// such as the name of a clock, stays.
func replace(value any, tokens map[string]string, minority []string) any {
	switch v := value.(type) {
	case string:
		return token.ReplaceAllStringFunc(v, func(name string) string {
			if known, ok := tokens[name]; ok {
				return known
			}
			return name
		})
	case []any:
		var list []any
		for _, item := range v {
			if item != minorityToken {
				list = append(list, replace(item, tokens, minority))
				continue
			}
			for _, site := range minority {
				list = append(list, site)
			}
		}
		return list
	case map[string]any:
		object := make(map[string]any, len(v))
		for key, item := range v { // order is irrelevant: into another map
			object[key] = replace(item, tokens, minority)
		}
		return object
	case float64:
		return int64(v) // manifests have whole numbers alone, and unstructured objects no others
	}
	return value
}
