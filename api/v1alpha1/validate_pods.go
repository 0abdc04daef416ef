package v1alpha1

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// What the operator keeps for itself in pods.
const (
	reservedLabels      = "georegister.io/"
	reservedApplication = "app.kubernetes.io/"
	reservedEnv         = "GEOREGISTER_"
)

// Bounds of lists and texts. They keep the rules of the CRD affordable for the API server.
const (
	maxImage            = 512
	maxPodMetadata      = 32
	maxMonitoringLabels = 16
	maxTolerations      = 32
	maxEnv              = 64
	maxObjectName       = 253
)

// validatePods checks what reaches pods and their volumes as it stands. What remains is said by the API server
// when the pods are made.
func validatePods(path *field.Path, s GeoRegisterClusterSpec) field.ErrorList {
	pod, p := path.Child("podTemplate"), s.PodTemplate
	unprintable := func(r rune) bool { return r <= ' ' || r > '~' }
	return slices.Concat(
		refuse(strings.ContainsFunc(s.Image, unprintable),
			field.Invalid(path.Child("image"), s.Image, "must be the name of an image, without spaces")),
		validateLength(path.Child("image"), s.Image, maxImage),
		refuse(len(s.Resources.Claims) > 0,
			field.Forbidden(path.Child("resources", "claims"), "claims are of no use to members; remove them")),
		validateKeys(pod.Child("annotations"), p.Annotations, maxPodMetadata, reservedLabels),
		validateKeys(pod.Child("labels"), p.Labels, maxPodMetadata, reservedLabels, reservedApplication),
		validateLength(pod.Child("priorityClassName"), p.PriorityClassName, maxObjectName),
		validateCount(pod.Child("tolerations"), len(p.Tolerations), maxTolerations),
		validateEnv(pod.Child("env"), p),
		validateKeys(path.Child("monitoring", "labels"), s.Monitoring.Labels, maxMonitoringLabels,
			reservedLabels, reservedApplication))
}

func validateCount(path *field.Path, n, most int) field.ErrorList {
	return refuse(n > most, field.TooMany(path, n, most))
}

func validateEnv(path *field.Path, p PodTemplate) field.ErrorList {
	errs := validateCount(path, len(p.Env), maxEnv)
	seen := map[string]bool{}
	for i, variable := range p.Env {
		name := path.Index(i).Child("name")
		switch {
		case variable.Name == "":
			errs = append(errs, field.Required(name, "give the variable a name"))
		case strings.HasPrefix(variable.Name, reservedEnv):
			errs = append(errs,
				field.Forbidden(name, "variables that begin with "+reservedEnv+" are the operator's; remove it"))
		case seen[variable.Name]:
			errs = append(errs, field.Duplicate(name, variable.Name))
		}
		seen[variable.Name] = true
	}
	return errs
}

// validateKeys checks how many annotations or labels there are, and that none is the operator's.
func validateKeys(path *field.Path, m map[string]string, most int, reserved ...string) field.ErrorList {
	errs := validateCount(path, len(m), most)
	for _, key := range slices.Sorted(maps.Keys(m)) {
		for _, prefix := range reserved {
			errs = append(errs, refuse(strings.HasPrefix(key, prefix),
				field.Forbidden(path.Key(key), "those of "+prefix+" are the operator's; remove it"))...)
		}
	}
	return errs
}

func validateNodePool(path *field.Path, p NodePool) field.ErrorList {
	value := path.Child("value")
	return slices.Concat(
		refuse(p.Key != "" && len(validation.IsQualifiedName(p.Key)) > 0, field.Invalid(path.Child("key"), p.Key,
			"must be the key of a node label, such as "+DefaultNodePoolKey)),
		refuse(p.Value == "", field.Required(value,
			"give the value of the label; remove nodePool to let the members run anywhere")),
		refuse(len(validation.IsValidLabelValue(p.Value)) > 0, field.Invalid(value, p.Value,
			"must be the value of a node label: at most 63 letters, digits, hyphens, underscores and dots, "+
				"with a letter or digit at both ends")))
}

func validateVolumes(path *field.Path, s Storage) field.ErrorList {
	errs := validateLength(path.Child("class"), s.Class, maxObjectName)
	if s.Size != nil && s.Size.Sign() <= 0 {
		errs = append(errs,
			field.Invalid(path.Child("size"), s.Size.String(), "must be more than nothing, such as 10Gi"))
	}
	if s.TransferRate != nil &&
		(s.TransferRate.CmpInt64(minTransferRate) < 0 || s.TransferRate.CmpInt64(maxTransferRate) > 0) {
		errs = append(errs, field.Invalid(path.Child("transferRate"), s.TransferRate.String(),
			"must be between 64Ki and 1Ti: bytes a second"))
	}
	return append(errs, validateChoice(path.Child("retention"), s.Retention, Retain, Delete)...)
}

func validateLength(path *field.Path, text string, most int) field.ErrorList {
	return refuse(len(text) > most, field.TooLong(path, text, most))
}

func validateClientMemory(path *field.Path, s GeoRegisterClusterSpec) field.ErrorList {
	memory := s.Limits.ClientMemory
	if memory == nil {
		return nil
	}
	at := path.Child("limits", "clientMemory")
	least := s.Limits.Register().LeastClientMemory()
	if memory.CmpInt64(least) < 0 || memory.CmpInt64(maxClientMemory) > 0 {
		return field.ErrorList{field.Invalid(at, memory.String(),
			fmt.Sprintf("must be between %s and 1Ti: 64Mi, or 16 times valueBytes",
				resource.NewQuantity(least, resource.BinarySI)))}
	}
	return validatePartOfMemory(at, memory, s)
}

// validatePartOfMemory reports a part of the member's memory that is all of it.
func validatePartOfMemory(at *field.Path, part *resource.Quantity, s GeoRegisterClusterSpec) field.ErrorList {
	if has, limited := s.Resources.Limits[corev1.ResourceMemory]; limited && part.Cmp(has) >= 0 {
		return field.ErrorList{field.Invalid(at, part.String(), fmt.Sprintf(
			"must be less than resources.limits.memory, %s, of which the member needs a part itself; a quarter of it "+
				"is the default", &has))}
	}
	return nil
}

func validateCache(path *field.Path, s GeoRegisterClusterSpec) field.ErrorList {
	cache := s.Storage.Cache
	if cache == nil {
		return nil
	}
	at := path.Child("storage", "cache")
	if cache.CmpInt64(minCache) < 0 || cache.CmpInt64(maxCache) > 0 {
		return field.ErrorList{field.Invalid(at, cache.String(), "must be between 16Mi and 1Ti")}
	}
	return validatePartOfMemory(at, cache, s)
}

// validateChoice checks a field that has one of a few values, or none.
func validateChoice[T ~string](path *field.Path, value T, choices ...T) field.ErrorList {
	return refuse(value != "" && !slices.Contains(choices, value), field.NotSupported(path, value, choices))
}
