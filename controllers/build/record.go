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
}

type recordMember struct {
	ID      uint32 `json:"id"`
	Site    string `json:"site"`
	Address string `json:"address"`
	Disk    string `json:"disk,omitempty"` // that it was founded on, or joined with
	Joining bool   `json:"joining,omitempty"`
	Leaving bool   `json:"leaving,omitempty"`
}

// Record is the object that holds in.View, complete for a create or, with the UID and the resource version of
// the one that was read, an update. Beside the view is its digest, so that an edit by hand is noticed.
func Record(in Input) *corev1.ConfigMap {
	file := recordFile{Cluster: in.View.Cluster, Epoch: in.View.Epoch, Issued: uint32(in.View.LastIssued()), Since: in.View.Since}
	for _, m := range in.View.Members {
		file.Members = append(file.Members, recordMember{uint32(m.ID), m.Site, m.Address, m.Disk, m.Joining, m.Leaving})
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
	v = view.View{Cluster: file.Cluster, Epoch: file.Epoch, Issued: view.MemberID(file.Issued), Since: file.Since}
	for _, m := range file.Members {
		v.Members = append(v.Members, view.Member{ID: view.MemberID(m.ID), Site: m.Site, Address: m.Address, Disk: m.Disk,
			Joining: m.Joining, Leaving: m.Leaving})
	}
	if err := v.Validate(); err != nil {
		return v, fmt.Errorf("%s: %w", ViewKey, err)
	}
	if v.Issued != v.LastIssued() || v.Issued > view.MaxMemberID {
		return v, fmt.Errorf("%s: issued is %d: it must be the highest id ever given, at least %d and at most %d",
			ViewKey, v.Issued, v.LastIssued(), view.MaxMemberID)
	}
	if got, want := record.Data[DigestKey], v.Digest(); got != want {
		return v, fmt.Errorf("its data %q is %q, the digest of its view is %q: it was edited or is damaged", DigestKey, got, want)
	}
	if id, ok := record.Annotations[ClusterIDAnnotation]; ok && id != v.Cluster {
		return v, fmt.Errorf("its annotation %s is %q, its view is of %q", ClusterIDAnnotation, id, v.Cluster)
	}
	return v, nil
}
