package build

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/georegister/georegister/replica/view"
)

// recordFile is a view as people read it in the record.
type recordFile struct {
	Cluster string         `json:"cluster"`
	Epoch   uint64         `json:"epoch"`
	Issued  uint32         `json:"issued"`          // the highest member id ever given
	Since   uint64         `json:"since,omitempty"` // the epoch that had the same members for the first time
	Members []recordMember `json:"members"`
	// Of protocols with masters alone.
	Witnesses  []recordWitness   `json:"witnesses,omitempty"`
	Partitions []recordPartition `json:"partitions,omitempty"`
	// How many partitions the cluster was founded with; 0: all of them.
	Founded int    `json:"founded,omitempty"`
	Level   uint32 `json:"level,omitempty"` // of the cluster
}

// The types of its parts have the fields of the view's own, and other names in JSON.
type recordWitness struct {
	ID      view.MemberID `json:"id"`
	Site    string        `json:"site"`
	Address string        `json:"address"`
	Disk    string        `json:"disk"`             // that it was taken on with
	Beside  view.MemberID `json:"beside,omitempty"` // the member in whose pod it runs
}

type recordPartition struct {
	Term      uint64          `json:"term"` // the epoch in which it came to be so
	Master    view.MemberID   `json:"master"`
	Backups   []view.MemberID `json:"backups,omitempty"`
	Witnesses []view.MemberID `json:"witnesses,omitempty"`
	Formers   []recordFormer  `json:"formers,omitempty"` // to recover from, the oldest first
	Empty     bool            `json:"empty,omitempty"`   // it begins again without anything: what it held was given up
	Split     uint64          `json:"split,omitempty"`   // the term in which it was split off another one
}

type recordFormer struct {
	Term      uint64          `json:"term"`
	Master    view.MemberID   `json:"master"`
	Backups   []view.MemberID `json:"backups,omitempty"`
	Witnesses []view.MemberID `json:"witnesses,omitempty"`
}

type recordMember struct {
	ID      view.MemberID `json:"id"`
	Site    string        `json:"site"`
	Address string        `json:"address"`
	Disk    string        `json:"disk,omitempty"` // that it was founded on, or joined with
	Joining bool          `json:"joining,omitempty"`
	Leaving bool          `json:"leaving,omitempty"`
}

// Record is the object that holds in.View, complete for a create or, with the UID and the resource version of
// the one that was read, an update. Beside the view is its digest, so that an edit by hand is noticed.
func Record(in Input) *corev1.ConfigMap {
	file := recordFile{
		Cluster: in.View.Cluster, Epoch: in.View.Epoch, Issued: uint32(in.View.LastIssued()), Since: in.View.Since,
		Founded: in.View.Founded, Level: in.View.Level,
	}
	for _, m := range in.View.Members {
		file.Members = append(file.Members, recordMember(m))
	}
	for _, w := range in.View.Witnesses {
		file.Witnesses = append(file.Witnesses, recordWitness(w))
	}
	for _, p := range in.View.Partitions {
		file.Partitions = append(file.Partitions, writtenPartition(p))
	}
	return &corev1.ConfigMap{
		TypeMeta:   kind("v1", "ConfigMap"),
		ObjectMeta: kept(in, RecordName(in.Cluster.Name), Labels(in.Cluster.Name)),
		Data:       map[string]string{ViewKey: text(file), DigestKey: in.View.Digest()},
	}
}

// ParseRecord reads the view of a record. A record that is damaged, or was edited by hand, is an error: whoever
// finds one rebuilds it from what the members hold.
func ParseRecord(record *corev1.ConfigMap) (view.View, error) {
	v, err := parseRecord(record)
	if err != nil {
		return view.View{}, fmt.Errorf("ConfigMap %s is no record of a view: %w", record.Name, err)
	}
	return v, nil
}

func parseRecord(record *corev1.ConfigMap) (view.View, error) {
	var file recordFile
	var v view.View
	written, ok := record.Data[ViewKey]
	if !ok {
		return v, fmt.Errorf("it has no data %q", ViewKey)
	}
	if err := yaml.UnmarshalStrict([]byte(written), &file); err != nil {
		return v, fmt.Errorf("%s: %w", ViewKey, err)
	}
	v = view.View{
		Cluster: file.Cluster, Epoch: file.Epoch, Issued: view.MemberID(file.Issued), Since: file.Since,
		Founded: file.Founded, Level: file.Level,
	}
	for _, m := range file.Members {
		v.Members = append(v.Members, view.Member(m))
	}
	for _, w := range file.Witnesses {
		v.Witnesses = append(v.Witnesses, view.Witness(w))
	}
	for _, p := range file.Partitions {
		v.Partitions = append(v.Partitions, p.partition())
	}
	if err := v.Validate(); err != nil {
		return v, fmt.Errorf("%s: %w", ViewKey, err)
	}
	if v.Issued != v.LastIssued() || v.Issued > view.MaxMemberID {
		return v, fmt.Errorf("%s: issued is %d: it must be the highest id ever given, at least %d and at most %d",
			ViewKey, v.Issued, v.LastIssued(), view.MaxMemberID)
	}
	if got, want := record.Data[DigestKey], v.Digest(); got != want {
		return v, fmt.Errorf("its data %q is %q, the digest of its view is %q: it was edited or is damaged",
			DigestKey, got, want)
	}
	if id, ok := record.Annotations[ClusterIDAnnotation]; ok && id != v.Cluster {
		return v, fmt.Errorf("its annotation %s is %q, its view is of %q", ClusterIDAnnotation, id, v.Cluster)
	}
	return v, nil
}

func writtenPartition(p view.Partition) recordPartition {
	written := recordPartition{Term: p.Term, Master: p.Master, Backups: p.Backups, Witnesses: p.Witnesses,
		Empty: p.Empty, Split: p.Split}
	for _, f := range p.Formers {
		written.Formers = append(written.Formers, recordFormer(f))
	}
	return written
}

func (r recordPartition) partition() view.Partition {
	p := view.Partition{Term: r.Term, Master: r.Master, Backups: r.Backups, Witnesses: r.Witnesses,
		Empty: r.Empty, Split: r.Split}
	for _, f := range r.Formers {
		p.Formers = append(p.Formers, view.Former(f))
	}
	return p
}
