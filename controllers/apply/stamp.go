package apply

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// stamp tells whether an object may have been changed, other than in its status where its kind can tell.
type stamp struct {
	uid      types.UID
	revision string // the resourceVersion
	// generation grows with the spec of kinds that have one; with it, metadata is the hash of what else the
	// operator writes. Zero: the kind has none, and every change counts.
	generation int64
	metadata   string
}

func stampOf(o client.Object) stamp {
	s := stamp{uid: o.GetUID(), revision: o.GetResourceVersion(), generation: o.GetGeneration()}
	if s.generation != 0 {
		// Errors are impossible: strings, and references made of them.
		text, _ := json.Marshal([]any{o.GetLabels(), o.GetAnnotations(), o.GetOwnerReferences()})
		s.metadata = digest(text)
	}
	return s
}

// covers reports whether an object as a cache has it is still what an apply left: unchanged, or older, when the
// cache is behind.
func (s stamp) covers(live stamp) bool {
	if s.uid != live.uid {
		return false
	}
	if s.generation != 0 && s.generation == live.generation && s.metadata == live.metadata {
		return true
	}
	order, err := resourceversion.CompareResourceVersion(live.revision, s.revision)
	return err == nil && order <= 0
}

// intent is an object as an apply states it: without what the apiserver fills in, so that the operator owns only
// what it means.
func intent(object client.Object) (*unstructured.Unstructured, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, fmt.Errorf("convert: %w", err)
	}
	delete(content, "status")
	unstructured.RemoveNestedField(content, "metadata", "creationTimestamp")
	unstructured.RemoveNestedField(content, "spec", "template", "metadata", "creationTimestamp")
	u := &unstructured.Unstructured{Object: content}
	if u.GetKind() == "" || u.GetAPIVersion() == "" {
		return nil, fmt.Errorf("%T has no kind", object)
	}
	return u, nil
}

// hashOf is that of an object. Keys are sorted, and there are no errors: it was made of strings, numbers and lists.
func hashOf(u *unstructured.Unstructured) string {
	text, _ := json.Marshal(u.Object)
	return digest(text)
}

func digest(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}
