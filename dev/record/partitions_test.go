package record

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/georegister/georegister/api/v1alpha1"
)

// How many shards are wanted is in the directory: by `split`, or by a manifest that asks for more than that of an
// earlier run.
func TestShardsAreNeverFewer(t *testing.T) {
	path := t.TempDir()
	with := func(shards int) (*Directory, error) {
		d, err := Open(path,
			manifest(t, fmt.Sprintf("{protocol: CURP, shards: %d, sites: [{name: a}, {name: b}, {name: c}]}", shards)))
		if err == nil {
			err = d.save() // as the start does
		}
		return d, err
	}
	for _, tt := range []struct {
		shards, wanted int
		fails          string
	}{
		{4, 4, ""}, {3, 0, "made with shards 4, the manifest has 3"}, {6, 6, ""}, {4, 6, ""}, {6, 6, ""},
		{5, 0,
			"has shards 6 by now, the manifest has 5: shards are split, and never made fewer; ask for 6, or for the 4"},
	} {
		d, err := with(tt.shards)
		if tt.fails == "" && (err != nil || d.Record.Shards != 4 || d.Record.WantedShards() != tt.wanted) {
			t.Errorf("shards %d: %+v: %v", tt.shards, d, err)
		}
		if tt.fails != "" && (err == nil || !strings.Contains(err.Error(), tt.fails)) {
			t.Errorf("shards %d: %v, want %q", tt.shards, err, tt.fails)
		}
	}
	if data, err := os.ReadFile(filepath.Join(path, recordFile)); err != nil ||
		!strings.Contains(string(data), `"wanted": 6`) {
		t.Errorf("%s: %v", data, err)
	}
}

// The bound is that of manifests.
func TestMostPartitions(t *testing.T) {
	spec := "{protocol: CURP, shards: %d, sites: [{name: a}, {name: b}, {name: c}]}"
	most := manifest(t, fmt.Sprintf(spec, v1alpha1.MaxShards))
	if errs := most.Validate(); len(errs) > 0 {
		t.Error(errs)
	}
	n := *most.Spec.Shards + 1
	most.Spec.Shards = &n
	if len(most.Validate()) == 0 {
		t.Errorf("a manifest may ask for %d shards", n)
	}
}
