package dev

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/replica/view"
)

// record is what a data directory keeps from one run to the next, in recordFile.
type record struct {
	Cluster  string         `json:"cluster"` // the cluster's identity
	Protocol string         `json:"protocol"`
	Shards   int            `json:"shards"`
	Members  []memberRecord `json:"members"`
	// Formed says that every member has voted once. From then on an empty disk is a lost one.
	Formed bool `json:"formed"`
}

type memberRecord struct {
	ID    view.MemberID `json:"id"`
	Site  string        `json:"site"`
	Label string        `json:"label"` // the site's name, numbered if it has several members
	Wiped bool          `json:"wiped,omitempty"`
	Ports ports         `json:"ports"`
}

// ports of a member on the loopback interface.
type ports struct {
	Redis int `json:"redis"`
	GRPC  int `json:"grpc"`
	Peer  int `json:"peer"`
	Admin int `json:"admin"`
	HTTP  int `json:"http"`
}

const recordFile = "cluster.json"

// directory is where a cluster lives: the record, and a directory for each member.
type directory struct {
	path      string
	temporary bool // removed at the end
	record    record
}

// openDirectory opens or makes a data directory for a manifest; an empty path makes a temporary one. It
// refuses a directory that was made for another topology.
func openDirectory(path string, manifest *v1alpha1.GeoRegisterCluster) (*directory, error) {
	d := &directory{path: path}
	if path == "" {
		temporary, err := os.MkdirTemp("", "georegister-dev-")
		if err != nil {
			return nil, fmt.Errorf("make a temporary data directory: %w", err)
		}
		d.path, d.temporary = temporary, true
	} else if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("make the data directory: %w", err)
	}
	fresh := newRecord(manifest)
	data, err := os.ReadFile(filepath.Join(d.path, recordFile))
	if errors.Is(err, os.ErrNotExist) {
		d.record = fresh
		return d, d.save()
	}
	if err != nil {
		return nil, fmt.Errorf("read the data directory's record: %w", err)
	}
	if err := json.Unmarshal(data, &d.record); err != nil {
		return nil, fmt.Errorf("%s is damaged (%w); remove the directory or use another --data", filepath.Join(path, recordFile), err)
	}
	if err := d.record.fits(fresh); err != nil {
		return nil, fmt.Errorf("data directory %s: %w; use another --data", path, err)
	}
	if d.record.Formed && manifest.Spec.Storage.DurabilityOrDefault() == v1alpha1.Memory {
		return nil, fmt.Errorf("data directory %s: with durability Memory nothing is left of the cluster that ran here; "+
			"remove the directory or use another --data", path)
	}
	return d, nil
}

func newRecord(manifest *v1alpha1.GeoRegisterCluster) record {
	r := record{
		Cluster:  manifest.Name + "-" + randomText(),
		Protocol: manifest.Spec.Protocol, Shards: manifest.Spec.ShardCount(),
	}
	for _, site := range manifest.Spec.Sites {
		for i := range site.MemberCount() {
			m := memberRecord{ID: view.MemberID(len(r.Members) + 1), Site: site.Name, Label: site.Name}
			if site.MemberCount() > 1 {
				m.Label = fmt.Sprintf("%s-%d", site.Name, i+1)
			}
			r.Members = append(r.Members, m)
		}
	}
	return r
}

// fits reports what of a topology that can't change differs.
func (r record) fits(want record) error {
	labels := func(r record) (all []string) {
		for _, m := range r.Members {
			all = append(all, m.Label)
		}
		return all
	}
	for _, f := range []struct {
		field     string
		got, want any
	}{
		{"protocol", r.Protocol, want.Protocol},
		{"shards", r.Shards, want.Shards},
		{"sites", labels(r), labels(want)},
	} {
		if !reflect.DeepEqual(f.got, f.want) {
			return fmt.Errorf("it was made with %s %v, the manifest has %v", f.field, f.got, f.want)
		}
	}
	return nil
}

// save replaces the record as a whole.
func (d *directory) save() error {
	data, err := json.MarshalIndent(d.record, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the data directory's record: %w", err)
	}
	return replaceFile(filepath.Join(d.path, recordFile), append(data, '\n'))
}

// member is the directory of one member: its configuration, log and disk.
func (d *directory) member(m memberRecord) string { return filepath.Join(d.path, "members", m.Label) }

// disk is what a wipe removes.
func (d *directory) disk(m memberRecord) string { return filepath.Join(d.member(m), "disk") }

// close removes a temporary directory.
func (d *directory) close() error {
	if !d.temporary {
		return nil
	}
	if err := os.RemoveAll(d.path); err != nil {
		return fmt.Errorf("remove the temporary data directory: %w", err)
	}
	return nil
}

// replaceFile writes a private file so that a reader sees the old or the new content.
func replaceFile(path string, data []byte) error {
	if err := os.WriteFile(path+".new", data, 0o600); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// randomText is eight hexadecimal digits.
func randomText() string {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails, says its documentation
	return hex.EncodeToString(b[:])
}
