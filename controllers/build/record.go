package build

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/georegister/georegister/replica/view"
)

// Record is the object that holds in.View, complete for a create or, with the UID and the resource version of
// the one that was read, an update.
func Record(in Input) *corev1.ConfigMap {
	return nil
}

// ParseRecord reads the view of a record. A record that is damaged, or was edited by hand, is an error: whoever
// finds one rebuilds it from what the members hold.
func ParseRecord(record *corev1.ConfigMap) (view.View, error) {
	return view.View{}, nil
}
