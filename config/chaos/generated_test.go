package chaos

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "write workflow.yaml and replacements.yaml anew")

const (
	updateHint    = "# Made from the experiments beside it by `go test ./config/chaos -update`; do not edit.\n"
	workflowStart = "# Does the experiments that spec.templates[0] names, one after the other: inject, ask for the " +
		"quorum, heal, ask again.\n" +
		"# Start it when verify.yaml has begun to load the cluster. Every experiment is a template, named or not.\n" +
		"# Parameters: DURATION of each step; SETTLE; PEER_QUORUM and SITE_QUORUM, which are asked; those of the " +
		"experiments.\n"
	replacementsStart = "# Puts the values of parameters.yaml where the manifests name them.\n"
)

// What is made from the experiments is up to date.
func TestGenerated(t *testing.T) {
	object := workflow(Usual)
	// Whether it was run is said by hand, below the rest of the comment.
	ran := "# Dry-run only: validated by the types of Chaos Mesh, not yet run on a cluster.\n"
	if is, err := os.ReadFile("workflow.yaml"); err == nil {
		if _, after, found := strings.Cut(string(is), updateHint); found {
			ran, _, _ = strings.Cut(after, "apiVersion:")
		}
	}
	same(t, "workflow.yaml", workflowStart+updateHint+ran, object)
	same(t, "replacements.yaml", replacementsStart+updateHint, replacements(t))
}

func same(t *testing.T, file, head string, value any) {
	t.Helper()
	body, err := yaml.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	want := append([]byte(head), body...)
	if *update {
		if err := os.WriteFile(file, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if is, err := os.ReadFile(file); err != nil || !bytes.Equal(is, want) {
		t.Errorf("%s is out of date: run `go test ./config/chaos -update` (%v)", file, err)
	}
}

// target is where a parameter is put.
type target struct {
	Select     map[string]string `json:"select"`
	FieldPaths []string          `json:"fieldPaths"`
	Options    map[string]any    `json:"options,omitempty"`
}

type replacement struct {
	Source  map[string]string `json:"source"`
	Targets []target          `json:"targets"`
}

// replacements are what kustomize needs: for each parameter the paths of all strings that name it. Names of objects
// come last, since targets are found by them.
func replacements(t *testing.T) []replacement {
	names := []string{Verification}
	for _, e := range List() {
		names = append(names, e.Name)
	}
	objects := map[string]map[string]any{"chaos": workflow(Usual)}
	for _, name := range names {
		objects[name] = manifest(name)
	}
	known := Parameters{}.tokens()
	known[minorityToken] = ""
	found := map[string][]target{}
	var last []target
	for _, name := range slices.Sorted(maps.Keys(objects)) {
		object := objects[name]
		kind, _ := object["kind"].(string)
		selected := map[string]string{"kind": kind, "name": "CLUSTER-" + name}
		walk(object, nil, func(path []string, text string) {
			for _, parameter := range token.FindAllString(text, -1) {
				if _, ok := known[parameter]; !ok {
					continue
				}
				one := target{
					Select: selected, FieldPaths: []string{strings.Join(path, ".")}, Options: part(t, text, parameter),
				}
				switch {
				case strings.Join(path, ".") == "metadata.name":
					last = append(last, one)
				case parameter == minorityToken: // a list in the place of a list
					one.FieldPaths[0] = strings.Join(path[:len(path)-1], ".")
					fallthrough
				default:
					found[parameter] = merge(found[parameter], one)
				}
			}
		})
	}
	var out []replacement
	from := func(key string) map[string]string {
		return map[string]string{"kind": "ChaosParameters", "fieldPath": key}
	}
	for _, parameter := range slices.Sorted(maps.Keys(found)) {
		out = append(out, replacement{from(camel(parameter)), found[parameter]})
	}
	return append(out, replacement{from("cluster"), last})
}

// walk visits all strings of a value, with their paths as kustomize writes them.
func walk(value any, path []string, visit func(path []string, text string)) {
	at := func(step string) []string { return append(slices.Clone(path), strings.ReplaceAll(step, ".", `\.`)) }
	switch v := value.(type) {
	case string:
		visit(path, v)
	case []any:
		for i, item := range v {
			walk(item, at(strconv.Itoa(i)), visit)
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			walk(v[key], at(key), visit)
		}
	}
}

// part says which part of a string a parameter is, or nil if it is the whole of it.
func part(t *testing.T, text, parameter string) map[string]any {
	if text == parameter {
		return nil
	}
	for _, delimiter := range []string{" ", "=", "-"} {
		if i := slices.Index(strings.Split(text, delimiter), parameter); i >= 0 {
			return map[string]any{"delimiter": delimiter, "index": i}
		}
	}
	t.Errorf("%q: kustomize can't put %s in, since no delimiter sets it apart", text, parameter)
	return nil
}

// merge adds a target to that of the same object and options, if there is one.
func merge(all []target, one target) []target {
	for i := range all {
		if maps.Equal(all[i].Select, one.Select) && fmt.Sprint(all[i].Options) == fmt.Sprint(one.Options) {
			all[i].FieldPaths = append(all[i].FieldPaths, one.FieldPaths...)
			return all
		}
	}
	return append(all, one)
}

// camel is the key of a parameter: peerQuorum for PEER_QUORUM.
func camel(parameter string) string {
	words := strings.Split(strings.ToLower(parameter), "_")
	for i := range words[1:] {
		words[i+1] = strings.ToUpper(words[i+1][:1]) + words[i+1][1:]
	}
	return strings.Join(words, "")
}
