package v1alpha1

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestClientMemory(t *testing.T) {
	values := int32(16 << 20)
	for _, test := range []struct {
		memory, pod string
		values      *int32
		want        string // in the message; empty: valid
	}{
		{"", "1Gi", nil, ""},
		{"64Mi", "1Gi", nil, ""},
		{"63Mi", "1Gi", nil, "between 64Mi and 1Ti"},
		{"2Ti", "", nil, "between 64Mi and 1Ti"},
		{"255Mi", "", &values, "between 256Mi and 1Ti"},
		{"256Mi", "", &values, ""},
		{"1Gi", "1Gi", nil, "resources.limits.memory, 1Gi"},
	} {
		var s GeoRegisterClusterSpec
		s.Limits.ValueBytes = test.values
		if test.memory != "" {
			memory := resource.MustParse(test.memory)
			s.Limits.ClientMemory = &memory
		}
		if test.pod != "" {
			s.Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(test.pod)}
		}
		switch errs := validateClientMemory(field.NewPath("spec"), s); {
		case test.want == "" && len(errs) > 0:
			t.Errorf("%s of %s: %v", test.memory, test.pod, errs)
		case test.want != "" &&
			(len(errs) != 1 || errs[0].Field != "spec.limits.clientMemory" ||
				!strings.Contains(errs[0].Detail, test.want)):
			t.Errorf("%s of %s: %v; want %q", test.memory, test.pod, errs, test.want)
		}
	}
}
