package build

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/georegister/georegister/api/v1alpha1"
)

// What reaches a pod restarts it; what does not, does not.
func TestSpecHash(t *testing.T) {
	one := int32(1)
	size := resource.MustParse("200Gi")
	for name, c := range map[string]struct {
		change   func(*v1alpha1.GeoRegisterCluster)
		restarts bool
	}{
		"nothing":    {func(*v1alpha1.GeoRegisterCluster) {}, false},
		"image":      {func(c *v1alpha1.GeoRegisterCluster) { c.Spec.Image = "other" }, true},
		"resources":  {func(c *v1alpha1.GeoRegisterCluster) { c.Spec.Resources.Limits = nil }, true},
		"affinity":   {func(c *v1alpha1.GeoRegisterCluster) { c.Spec.PodTemplate.Affinity = nil }, true},
		"toleration": {func(c *v1alpha1.GeoRegisterCluster) { c.Spec.PodTemplate.Tolerations[0].Key = "other" }, true},
		"priority":   {func(c *v1alpha1.GeoRegisterCluster) { c.Spec.PodTemplate.PriorityClassName = "low" }, true},
		"annotation": {func(c *v1alpha1.GeoRegisterCluster) { c.Spec.PodTemplate.Annotations["a"] = "b" }, true},
		"env": {func(c *v1alpha1.GeoRegisterCluster) {
			c.Spec.PodTemplate.Env = append(c.Spec.PodTemplate.Env, corev1.EnvVar{Name: "A"})
		}, true},
		"durability": {func(c *v1alpha1.GeoRegisterCluster) { c.Spec.Storage.Durability = v1alpha1.Sync }, true},
		"interval":   {func(c *v1alpha1.GeoRegisterCluster) { c.Spec.Storage.Interval = "30ms" }, true},
		"limits":     {func(c *v1alpha1.GeoRegisterCluster) { c.Spec.Limits.KeyBytes = &one }, true},
		"slots": {func(c *v1alpha1.GeoRegisterCluster) {
			c.Spec.CURP = &v1alpha1.CURPOptions{Witness: &v1alpha1.Witness{Slots: &one}}
		}, true},
		"faults":     {func(c *v1alpha1.GeoRegisterCluster) { c.Spec.FaultTolerance = &one }, false},
		"size":       {func(c *v1alpha1.GeoRegisterCluster) { c.Spec.Storage.Size = &size }, false},
		"retention":  {func(c *v1alpha1.GeoRegisterCluster) { c.Spec.Storage.Retention = v1alpha1.Retain }, false},
		"node pool":  {func(c *v1alpha1.GeoRegisterCluster) { c.Spec.Sites[0].NodePool = nil }, false},
		"monitoring": {func(c *v1alpha1.GeoRegisterCluster) { c.Spec.Monitoring.Enabled = false }, false},
		"wan":        {func(c *v1alpha1.GeoRegisterCluster) { c.Spec.WAN = nil }, false},
		"pause":      {func(c *v1alpha1.GeoRegisterCluster) { c.Spec.Paused = true }, false},
		"protection": {func(c *v1alpha1.GeoRegisterCluster) { c.Spec.DeletionProtection = true }, false},
		"generation": {func(c *v1alpha1.GeoRegisterCluster) { c.Generation++ }, false},
		"label":      {func(c *v1alpha1.GeoRegisterCluster) { c.Labels = map[string]string{"a": "b"} }, false},
		"quantity's form": {func(c *v1alpha1.GeoRegisterCluster) {
			c.Spec.Resources.Requests[corev1.ResourceCPU] = resource.MustParse("1000m")
		}, false},
	} {
		before := load(t, "full").Cluster
		after := load(t, "full").Cluster
		c.change(after)
		if changed := SpecHash(before) != SpecHash(after); changed != c.restarts {
			t.Errorf("%s: the hash changed: %v, want %v", name, changed, c.restarts)
		}
	}
}

// A new version of the operator must not restart the members that an old one made: what the hash is of a
// resource, it is for ever.
func TestSpecHashIsForEver(t *testing.T) {
	for name, want := range map[string]string{"minimal": "afd663bb81a2b191", "full": "7d3fb89a2772c8f7"} {
		if got := SpecHash(load(t, name).Cluster); got != want {
			t.Errorf("%s: the hash is %s, and was %s", name, got, want)
		}
	}
}

// The hash is on the template, whatever the user's annotations say.
func TestSpecHashIsOnPods(t *testing.T) {
	in := load(t, "full")
	got := statefulSet(in, in.View.Members[0]).Spec.Template.Annotations[SpecHashAnnotation]
	if got != SpecHash(in.Cluster) {
		t.Errorf("the annotation is %q", got)
	}
}
