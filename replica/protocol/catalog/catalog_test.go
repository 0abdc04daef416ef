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
		e, err := catalog.Find(name)
		if err != nil || (e.Factory == nil) != e.Parted {
			t.Errorf("Find(%q), as a manifest spells it: %v", name, err)
		}
		if row, _ := capability.Find(name); e.Regular != (row.Consistency == "regular sequential") {
			t.Errorf("%s is regular here: %t, and its clients are told that it is %s", name, e.Regular, row.Consistency)
		}
	}
	slices.Sort(table) // capital letters come first there
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
