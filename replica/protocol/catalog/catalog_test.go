package catalog_test

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/georegister/georegister/replica/capability"
	"github.com/georegister/georegister/replica/protocol/catalog"
)

func TestEveryProtocolRuns(t *testing.T) {
	if names := catalog.Names(); !slices.IsSorted(names) {
		t.Errorf("names are not sorted: %v", names)
	}
	for _, e := range catalog.All() {
		found, err := catalog.Find(e.Row.Name)
		if err != nil || found.Name() != e.Name() || (e.Factory == nil) != (e.Partitioned != nil) {
			t.Errorf("Find(%q), as a manifest spells it: %v", e.Row.Name, err)
		}
		if e.GoodAt == "" || e.Price == "" || len(e.Records) == 0 {
			t.Errorf("%s says too little of itself", e.Row.Name)
		}
	}
}

// The table that depends on no protocol is the one that the protocols define.
func TestTheTableIsGenerated(t *testing.T) {
	table := capability.Table()
	for _, e := range catalog.All() {
		at := slices.IndexFunc(table, func(p capability.Protocol) bool { return p.Name == e.Row.Name })
		if at < 0 || !reflect.DeepEqual(table[at], e.Row) {
			t.Errorf("replica/capability/table.go does not have the row of %s: run make manifests", e.Row.Name)
		}
	}
	if len(table) != len(catalog.All()) {
		t.Errorf("replica/capability/table.go has %d rows for %d protocols: run make manifests",
			len(table), len(catalog.All()))
	}
}

// Each sample is named by the protocol that it has, and by no other.
func TestSamplesAreThere(t *testing.T) {
	files, err := filepath.Glob("../../../config/samples/*-*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range catalog.All() {
			has := strings.Contains(string(text), "protocol: "+e.Row.Name+"\n")
			if has != slices.Contains(e.Samples, filepath.Base(file)) {
				t.Errorf("%s has protocol %s: %t, and its definition says otherwise", file, e.Row.Name, has)
			}
		}
	}
	for _, e := range catalog.All() {
		for _, sample := range e.Samples {
			if !slices.Contains(files, filepath.Join("../../../config/samples", sample)) {
				t.Errorf("%s names a sample %s, which is not there", e.Row.Name, sample)
			}
		}
	}
}

func TestVariantsAreFound(t *testing.T) {
	for _, v := range catalog.Variants() {
		if _, found, err := catalog.FindVariant(v.Name); err != nil || found != v {
			t.Errorf("%s is found as %v, %v", v.Name, found, err)
		}
	}
}

func TestFindNamesTheChoices(t *testing.T) {
	_, err := catalog.Find("paxos")
	if err == nil || !strings.Contains(err.Error(), `"paxos"`) ||
		!strings.Contains(err.Error(), strings.Join(catalog.Names(), ", ")) {
		t.Errorf("the error must name what was asked for and what there is: %v", err)
	}
}

func TestWhatHappensInSchedulesIsOnRecord(t *testing.T) {
	for _, v := range catalog.Variants() {
		record := filepath.Join("..", "..", "simulator", "testdata", "traces", strings.ToLower(v.Name)+".txt")
		if lines, err := os.ReadFile(record); err != nil || strings.Count(string(lines), "\ndigest") != 49 {
			t.Errorf("hack/traces.sh --write %s records 50 digests: %v", v.Name, err)
		}
	}
}
