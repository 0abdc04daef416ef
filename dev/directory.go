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
	"slices"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/replica/membership"
	"github.com/georegister/georegister/replica/view"
)

// record is what a data directory keeps from one run to the next, in recordFile.
type record struct {
	Cluster  string `json:"cluster"` // the cluster's identity
	Protocol string `json:"protocol"`
	Shards   int    `json:"shards"` // that the cluster was founded with
	// Wanted is how many shards there are to be, where they are partitions, which are split until there are as many; no
	// more than Shards: they are all.
	Wanted int `json:"wanted,omitempty"`
	// Faults is how many losses a partition survives, where shards are partitions with masters; 0: they are not.
	Faults int `json:"faults,omitempty"`
	// Homes are the sites of the masters, in turn, as far as they have members; those that came later follow.
	Homes []string `json:"homes,omitempty"`
	// Given are the homes of masters as the manifest has them now, by partition, and Moved those that were given since,
	// which count first. Empty: none.
	Given   []string       `json:"given,omitempty"`
	Moved   []string       `json:"moved,omitempty"`
	Sites   []string       `json:"sites"`   // the labels of those that it was made with
	Members []memberRecord `json:"members"` // by ID: those of the view, newcomers, and those that leave
	// Dedicated says that witnesses have processes of their own, one at each site, which Witnesses has by ID.
	Dedicated bool            `json:"dedicated,omitempty"`
	Witnesses []witnessRecord `json:"witnesses,omitempty"`
	Issued    view.MemberID   `json:"issued"` // the highest ID that a process ever had, of a member or a witness
	// View is the one that members are told; it is written here before any of them is. Epoch 0: none yet.
	View   view.View `json:"view"`
	Change *change   `json:"change,omitempty"` // that is going on
	// fragments is how the manifest has large values stored, which the members' disks keep.
	fragments view.Fragments
}

type memberRecord struct {
	ID    view.MemberID `json:"id"`
	Site  string        `json:"site"`
	Label string        `json:"label"` // the site's name, numbered if it has several members
	Ports ports         `json:"ports"`
	// Witness is the ID of the one beside it; 0: the protocol has none.
	Witness view.MemberID `json:"witness,omitempty"`
}

// ports of a member on the loopback interface.
type ports struct {
	Redis int `json:"redis"`
	GRPC  int `json:"grpc"`
	Peer  int `json:"peer"`
	Admin int `json:"admin"`
	HTTP  int `json:"http"`
	// Witness is the port of the witness beside it; 0: there is none.
	Witness int `json:"witness,omitempty"`
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
	d.record.complete()
	if err := d.record.fits(fresh); err != nil {
		return nil, fmt.Errorf("data directory %s: %w; use another --data", path, err)
	}
	d.record.Faults, d.record.Given = fresh.Faults, fresh.Given // the partitions follow
	d.record.fragments = fresh.fragments
	d.record.grow(fresh.Shards)
	if d.record.View.Epoch > 0 && manifest.Spec.Storage.DurabilityOrDefault() == v1alpha1.Memory {
		return nil, fmt.Errorf("data directory %s: with durability Memory nothing is left of the cluster that ran here; "+
			"remove the directory or use another --data", path)
	}
	return d, nil
}

func newRecord(manifest *v1alpha1.GeoRegisterCluster) record {
	r := record{
		Cluster:  manifest.Name + "-" + randomText(),
		Protocol: manifest.Spec.Protocol, Shards: manifest.Spec.ShardCount(),
		fragments: manifest.Spec.Fragments(),
	}
	if manifest.Spec.Partitioned() {
		r.Faults, r.Given, r.Dedicated = manifest.Spec.Faults(), manifest.Spec.Homes, manifest.Spec.Dedicated()
		for _, site := range manifest.Spec.Sites {
			r.Homes = append(r.Homes, site.Name)
		}
	}
	for _, site := range manifest.Spec.Sites {
		for i := range site.MemberCount() {
			m := memberRecord{Site: site.Name, Label: site.Name}
			m.ID, m.Witness = r.issue()
			if site.MemberCount() > 1 {
				m.Label = fmt.Sprintf("%s-%d", site.Name, i+1)
			}
			r.Members, r.Sites = append(r.Members, m), append(r.Sites, m.Label)
		}
	}
	if r.Dedicated {
		r.foundingWitnesses(r.Homes)
	}
	return r
}

// complete adds what earlier versions did not record: their members never changed.
func (r *record) complete() {
	if len(r.Sites) > 0 {
		return
	}
	for _, m := range r.Members {
		r.Sites, r.Issued = append(r.Sites, m.Label), max(r.Issued, m.ID)
	}
}

// fits reports what of a topology that can't change differs. The sites are those that the directory was made with,
// whatever changed since.
func (r record) fits(want record) error {
	if r.Protocol == want.Protocol && r.partitioned() {
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

// newcomer adds a member at a site, whose process has yet to be started. The first at a site has its name.
func (r *record) newcomer(site string) view.MemberID {
	taken := func(label string) bool {
		return slices.ContainsFunc(r.Members, func(m memberRecord) bool { return m.Label == label })
	}
	label := site
	for n := 2; taken(label); n++ {
		label = fmt.Sprintf("%s-%d", site, n)
	}
	m := memberRecord{Site: site, Label: label}
	m.ID, m.Witness = r.issue()
	r.Members = append(r.Members, m)
	return m.ID
}

// issue gives the next member its ID, and the witness beside it, if it has one.
func (r *record) issue() (member, witness view.MemberID) {
	if !r.partitioned() {
		r.Issued++
		return r.Issued, 0
	}
	member = membership.PairedIDs(r.Issued, 1)[0]
	if r.Dedicated {
		r.Issued = member
		return member, 0
	}
	r.Issued = membership.WitnessOf(member)
	return member, r.Issued
}

// partitioned reports whether each shard has a master, backups and witnesses.
func (r *record) partitioned() bool { return r.Faults > 0 }

// founders is the highest ID of a member that the directory was made with.
func (r *record) founders() view.MemberID {
	if !r.partitioned() {
		return view.MemberID(len(r.Sites))
	}
	ids := membership.PairedIDs(0, len(r.Sites))
	return ids[len(ids)-1]
}

// find is the record of a member; nil if there is none.
func (r *record) find(id view.MemberID) *memberRecord {
	for i := range r.Members {
		if r.Members[i].ID == id {
			return &r.Members[i]
		}
	}
	return nil
}

// label names a member, or a witness, to people.
func (r *record) label(id view.MemberID) string {
	if m := r.find(id); m != nil {
		return m.Label
	}
	for _, m := range r.Members {
		if id != 0 && m.Witness == id {
			return m.Label + witnessSuffix
		}
	}
	for _, w := range r.Witnesses {
		if w.ID == id {
			return r.witnessLabel(w)
		}
	}
	return fmt.Sprintf("member %d", id)
}

// save replaces the record as a whole.
func (d *directory) save() error {
	data, err := json.MarshalIndent(d.record, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the data directory's record: %w", err)
	}
	return replaceFile(filepath.Join(d.path, recordFile), append(data, '\n'))
}

// member is the directory of one member: its configuration, log and disk. A label may be used again, so those of
// members that came later are numbered.
func (d *directory) member(m memberRecord) string {
	name := m.Label
	if m.ID > d.record.founders() {
		name = fmt.Sprintf("%s.%d", m.Label, m.ID)
	}
	return filepath.Join(d.path, "members", name)
}

// tokenKeys is the file with the keys that all members prove with what sessions depend on.
func (d *directory) tokenKeys() string { return filepath.Join(d.path, "token-keys") }

// disk is what a wipe removes, and so is witnessDisk.
func (d *directory) disk(m memberRecord) string { return filepath.Join(d.member(m), "disk") }

// witness is the directory of the witness beside a member: its configuration, log and disk.
func (d *directory) witness(m memberRecord) string { return filepath.Join(d.member(m), "witness") }

func (d *directory) witnessDisk(m memberRecord) string { return filepath.Join(d.witness(m), "disk") }

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

// replaceFile writes a private file so that a reader sees the old or the new content, also after the machine lost its
// power.
func replaceFile(path string, data []byte) error {
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

// randomText is eight hexadecimal digits.
func randomText() string {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails, says its documentation
	return hex.EncodeToString(b[:])
}
