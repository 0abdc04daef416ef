package emulation

import "testing"

func TestPairsOfSitesHaveNamesOfTheirOwn(t *testing.T) {
	sites, seen := []string{"a", "b", "a-b", "b-c", "c", "b-c-d", "c-d", "d"}, map[string]string{}
	for i, a := range sites {
		for _, b := range sites[i+1:] {
			name := linkName(a, b)
			if seen[name] != "" {
				t.Errorf("%s is %s, and %s and %s", name, seen[name], a, b)
			}
			seen[name] = a + " and " + b
		}
	}
	if seen["a-b"] == "" {
		t.Error("names without hyphens are not joined by one")
	}
}
