package v1alpha1

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/georegister/georegister/replica/capability"
	"github.com/georegister/georegister/replica/view"
)

// GusOptions are the options of protocol Gus alone.
type GusOptions struct {
	// ErasureCoding has large values stored as fragments of a Reed-Solomon code, one with each member. It can't be
	// changed later, and members can then be exchanged and added, but not become fewer. Default: every member stores
	// every value whole.
	// +optional
	ErasureCoding *ErasureCoding `json:"erasureCoding,omitempty"`
}

// ErasureCoding says which values are stored as fragments, and how many of those restore one.
// +kubebuilder:validation:XValidation:rule="self.?thresholdBytes.orValue(65536) == oldSelf.?thresholdBytes.orValue(65536)",message="thresholdBytes can't be changed, by which values are stored (absent, it is 65536): restore it, or create a new cluster",fieldPath=".thresholdBytes"
type ErasureCoding struct {
	// DataFragments is how many fragments restore a value: k of the paper. Each is that part of the value, and each
	// member has one. With n members of which f may be lost (faultTolerance, or by default any minority), at most n -
	// 2f: a write waits until k + f members have theirs.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=5
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="dataFragments can't be changed, by which values are stored: restore it, or create a new cluster"
	DataFragments int32 `json:"dataFragments"`

	// ThresholdBytes is the size up to which values are stored whole, in bytes. Reads and writes of larger ones take
	// a round trip more. Default: 65536.
	// +optional
	// +kubebuilder:validation:Minimum=1024
	// +kubebuilder:validation:Maximum=16777216
	ThresholdBytes *int32 `json:"thresholdBytes,omitempty"`
}

// Threshold is thresholdBytes or its default.
func (e ErasureCoding) Threshold() int { return int(valueOr(e.ThresholdBytes, DefaultThresholdBytes)) }

// LostWithOne says what is lost if one member alone goes on, with more than one fragment to a value.
func (e ErasureCoding) LostWithOne() string {
	return fmt.Sprintf(
		"all values of more than %d bytes are lost (spec.gus.erasureCoding): one member has one fragment "+
			"of each, and %d restore it; reads of them are refused until they are written again",
		e.Threshold(), e.DataFragments)
}

// Fragments says how the members store large values, and how many of them may be lost: as they are told it.
func (s GeoRegisterClusterSpec) Fragments() view.Fragments {
	e := s.ErasureCoding()
	if e == nil {
		return view.Fragments{}
	}
	return view.Fragments{Data: int(e.DataFragments), Faults: s.ToldFaults()}
}

// ErasureCoding is spec.gus.erasureCoding, or nil.
func (s GeoRegisterClusterSpec) ErasureCoding() *ErasureCoding {
	if s.Gus == nil {
		return nil
	}
	return s.Gus.ErasureCoding
}

// Bounds of erasureCoding.
const (
	maxDataFragments  = 5 // of seven members, one of which may be lost
	minThresholdBytes = 1 << 10
)

// validateErasureCoding checks how large values are stored as fragments with protocol Gus; counted says that the
// sites and the faults are right, so that k <= n - 2f can be.
func validateErasureCoding(
	path *field.Path, s GeoRegisterClusterSpec, protocol capability.Protocol, counted bool,
) field.ErrorList {
	e := s.ErasureCoding()
	if e == nil || s.Protocol != gus {
		return nil
	}
	at, k, t := path.Child("dataFragments"), e.DataFragments, valueOr(e.ThresholdBytes, minThresholdBytes)
	errs := validateRange(at, &k, maxDataFragments)
	if counted && len(errs) == 0 {
		errs = check(at, k, protocol.CheckFragments(s.MemberCount(), s.Faults(), int(k)))
	}
	return append(errs, refuse(t < minThresholdBytes || t > maxValueBytes,
		field.Invalid(path.Child("thresholdBytes"), t,
			fmt.Sprintf("must be between %d and %d", minThresholdBytes, maxValueBytes)))...)
}
