package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/replica/membership"
	"github.com/georegister/georegister/replica/view"
)

const recordFile = "cluster.json"

// Directory is where a cluster lives: the record, and a directory for each member.
type Directory struct {
	Path      string
	Record    Record
	temporary bool // removed at the end
}

// Open opens or makes a data directory for a manifest; an empty path makes a temporary one. It
// refuses a directory that was made for another topology.
func Open(path string, manifest *v1alpha1.GeoRegisterCluster) (*Directory, error) {
	d := &Directory{Path: path}
	if path == "" {
		temporary, err := os.MkdirTemp("", "georegister-dev-")
		if err != nil {
			return nil, fmt.Errorf("make a temporary data directory: %w", err)
		}
		d.Path, d.temporary = temporary, true
	} else if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("make the data directory: %w", err)
	}
	fresh := New(manifest)
	data, err := os.ReadFile(filepath.Join(d.Path, recordFile))
	if errors.Is(err, os.ErrNotExist) {
		d.Record = fresh
		return d, d.save()
	}
	if err != nil {
		return nil, fmt.Errorf("read the data directory's record: %w", err)
	}
	if err := json.Unmarshal(data, &d.Record); err != nil {
		return nil, fmt.Errorf("%s is damaged (%w); remove the directory or use another --data",
			filepath.Join(path, recordFile), err)
	}
	d.Record.complete()
	if manifest.Spec.Shards == nil && !d.Record.Partitioned() {
		fresh.Shards = d.Record.Shards // the default is that of clusters which are founded now
	}
	if err := d.Record.fits(fresh); err != nil {
		return nil, fmt.Errorf("data directory %s: %w; use another --data", path, err)
	}
	d.Record.Faults, d.Record.Given = fresh.Faults, fresh.Given // the partitions follow
	d.Record.Fragments = fresh.Fragments
	if d.Record.Partitioned() && fresh.Shards > d.Record.WantedShards() { // what was split meanwhile stays so
		d.Record.Wanted = fresh.Shards
	}
	if d.Record.View.Epoch > 0 && manifest.Spec.Storage.DurabilityOrDefault() == v1alpha1.Memory {
		return nil, fmt.Errorf("data directory %s: with durability Memory nothing is left of the cluster that ran "+
			"here; remove the directory or use another --data", path)
	}
	return d, nil
}

// complete adds what earlier versions did not record: their members never changed.
func (r *Record) complete() {
	if len(r.Sites) > 0 {
		return
	}
	for _, m := range r.Members {
		r.Sites, r.Issued = append(r.Sites, m.Label), max(r.Issued, m.ID)
	}
}

// fits reports what of a topology that can't change differs. The sites are those that the directory was made with,
// whatever changed since.
func (r Record) fits(want Record) error {
	if r.Protocol == want.Protocol && r.Partitioned() {
		if err := r.fewer(want.Shards); err != nil {
			return err
		}
		want.Shards = r.Shards
	}
	for _, f := range []struct {
		field     string
		got, want any
	}{
		{"protocol", r.Protocol, want.Protocol},
		{"shards", r.Shards, want.Shards},
		{"sites", r.Sites, want.Sites},
		{"dedicated witnesses", r.Dedicated, want.Dedicated},
	} {
		if !reflect.DeepEqual(f.got, f.want) {
			return fmt.Errorf("it was made with %s %v, the manifest has %v", f.field, f.got, f.want)
		}
	}
	return nil
}

// save replaces the record as a whole.
func (d *Directory) save() error {
	data, err := json.MarshalIndent(d.Record, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the data directory's record: %w", err)
	}
	return Replace(filepath.Join(d.Path, recordFile), append(data, '\n'))
}

// Update changes the record, as a whole or not at all: after an error it is as before.
func (d *Directory) Update(change func(*Record) error) error {
	former := d.Record
	err := change(&d.Record)
	if err == nil {
		err = d.save()
	}
	if err != nil {
		d.Record = former
	}
	return err
}

// Member is the directory of one member: its configuration, log and disk. A label may be used again, so those of
// members that came later are numbered.
func (d *Directory) Member(m Member) string {
	founders := view.MemberID(len(d.Record.Sites))
	if d.Record.Partitioned() {
		founders = slices.Max(membership.PairedIDs(0, len(d.Record.Sites)))
	}
	name := m.Label
	if m.ID > founders {
		name = fmt.Sprintf("%s.%d", m.Label, m.ID)
	}
	return filepath.Join(d.Path, "members", name)
}

// Beside is the directory of the witness beside a member.
func (d *Directory) Beside(m Member) string { return filepath.Join(d.Member(m), "witness") }

// Witness is the directory of a dedicated witness.
func (d *Directory) Witness(w Witness) string {
	return filepath.Join(d.Path, "witnesses", fmt.Sprintf("%s.%d", w.Site, w.ID))
}

// TokenKeys is the file with the keys that all members prove with what sessions depend on.
func (d *Directory) TokenKeys() string { return filepath.Join(d.Path, "token-keys") }

// Close removes a temporary directory.
func (d *Directory) Close() error {
	if !d.temporary {
		return nil
	}
	if err := os.RemoveAll(d.Path); err != nil {
		return fmt.Errorf("remove the temporary data directory: %w", err)
	}
	return nil
}

// Replace writes a private file so that a reader sees the old or the new content, also after the machine lost its
// power.
func Replace(path string, data []byte) error {
	err := writeFile(path+".new", data)
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err == nil {
		err = syncFile(os.Open(filepath.Dir(path)))
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

func writeFile(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err == nil {
		_, err = f.Write(data)
	}
	return syncFile(f, err)
}

// syncFile makes a file durable and closes it, unless something failed before.
func syncFile(f *os.File, err error) error {
	if err == nil {
		err = f.Sync()
	}
	if f != nil {
		err = errors.Join(err, f.Close())
	}
	return err
}
