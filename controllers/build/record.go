package build

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/georegister/georegister/replica/view"
)

// Record is the object that holds in.View, complete for a create or, with the UID and the resource version of
// the one that was read, an update. Beside the view is its digest, so that an edit by hand is noticed.
func Record(in Input) *corev1.ConfigMap {
	in.View.Issued = in.View.LastIssued()
	return &corev1.ConfigMap{
		TypeMeta:   kind("v1", "ConfigMap"),
		ObjectMeta: kept(in, RecordName(in.Cluster.Name), Labels(in.Cluster.Name)),
		Data:       map[string]string{ViewKey: text(in.View), DigestKey: in.View.Digest()},
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
	var v view.View
	written, ok := record.Data[ViewKey]
	if !ok {
		return v, fmt.Errorf("it has no data %q", ViewKey)
	}
	if err := yaml.UnmarshalStrict([]byte(written), &v); err != nil {
		return v, fmt.Errorf("%s: %w", ViewKey, err)
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
