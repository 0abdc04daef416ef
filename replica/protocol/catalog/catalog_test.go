package catalog_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/georegister/georegister/replica/capability"
	"github.com/georegister/georegister/replica/protocol/catalog"
)

func TestEveryProtocolOfTheTableRuns(t *testing.T) {
	names := catalog.Names()
	if !slices.IsSorted(names) {
		t.Errorf("names are not sorted: %v", names)
	}
	var table []string
	for _, name := range capability.Names() {
		table = append(table, strings.ToLower(name))
		if e, err := catalog.Find(name); err != nil || (e.Factory == nil) != e.Parted {
			t.Errorf("Find(%q), as a manifest spells it: %v", name, err)
		}
	}
	if !slices.Equal(names, table) {
		t.Errorf("the catalog has %v, the table of protocols %v", names, table)
	}
}

func TestFindNamesTheChoices(t *testing.T) {
	_, err := catalog.Find("paxos")
	if err == nil || !strings.Contains(err.Error(), `"paxos"`) || !strings.Contains(err.Error(), strings.Join(catalog.Names(), ", ")) {
		t.Errorf("the error must name what was asked for and what there is: %v", err)
	}
}
