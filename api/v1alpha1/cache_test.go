package v1alpha1

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestCache(t *testing.T) {
	for _, test := range []struct {
		cache, pod string
		want       string // in the message; empty: valid
	}{
		{"16Mi", "", ""},
		{"512Mi", "2Gi", ""},
		{"2Ti", "", "between 16Mi and 1Ti"},
		{"-1", "", "between 16Mi and 1Ti"},
		{"1Gi", "1Gi", "resources.limits.memory, 1Gi"},
	} {
		cache := resource.MustParse(test.cache)
		s := GeoRegisterClusterSpec{Storage: Storage{Cache: &cache}}
		if test.pod != "" {
			s.Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(test.pod)}
		}
		errs := validateCache(field.NewPath("spec"), s)
		if valid := test.want == ""; valid != (len(errs) == 0) {
			t.Errorf("%s of %s: %v", test.cache, test.pod, errs)
		} else if !valid && (errs[0].Field != "spec.storage.cache" || !strings.Contains(errs[0].Detail, test.want)) {
			t.Errorf("%s of %s: %v; want %q", test.cache, test.pod, errs, test.want)
		}
	}
}
