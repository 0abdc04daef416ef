package chart

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// The chart's files are copies (hack/chart.sh): a chart must be whole without the repository around it.
func TestChartHasWhatConfigHas(t *testing.T) {
	const config, files = "../../config", "../../charts/georegister/files"
	kustomizes := []string{"kustomization.yaml", "parameters.yaml", "replacements.yaml"}
	copies := map[string]string{
		config + "/rbac/role.yaml":                 files + "/rbac/role.yaml",
		config + "/rbac/leader_election_role.yaml": files + "/rbac/leader_election_role.yaml",
	}
	// Order is irrelevant: only gathered.
	for from, to := range map[string]string{
		config + "/crd/bases": files + "/crd", config + "/admission": files + "/admission",
		config + "/chaos": files + "/chaos",
	} {
		sources, err := filepath.Glob(from + "/*.yaml")
		if err != nil {
			t.Fatal(err)
		}
		if len(sources) == 0 {
			t.Errorf("%s is empty", from)
		}
		for _, s := range sources {
			if !slices.Contains(kustomizes, filepath.Base(s)) {
				copies[s] = filepath.Join(to, filepath.Base(s))
			}
		}
	}
	known := map[string]bool{}
	for from, to := range copies { // order is irrelevant: each is compared for itself
		known[filepath.Clean(to)] = true
		want, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(to); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s differs from %s; run `make chart` (%v)", to, from, err)
		}
	}
	all, err := filepath.Glob(files + "/*/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range all {
		if !known[filepath.Clean(file)] {
			t.Errorf("%s is a copy of nothing any more; run `make chart`", file)
		}
	}
}
