package v1alpha1

import corev1 "k8s.io/api/core/v1"

// PodSpec is what the user says of the members' pods. A change of it restarts the members, one after the other.
type PodSpec struct {
	// Image of the members. Default: what the members run already; for new clusters, the operator's own image.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Image string `json:"image,omitempty"`

	// Resources of each member.
	// +optional
	Resources corev1.ResourceRequirements `json:"resources,omitempty"`

	// PodTemplate adds to the members' pods.
	// +optional
	PodTemplate PodTemplate `json:"podTemplate,omitempty"`
}

// PodTemplate adds to the members' pods.
type PodTemplate struct {
	// Affinity replaces the operator's preference for spreading the members over nodes and zones. A site's
	// nodePool holds beside it.
	// +optional
	Affinity *corev1.Affinity `json:"affinity,omitempty"`

	// Tolerations of the pods.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`

	// PriorityClassName of the pods.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	PriorityClassName string `json:"priorityClassName,omitempty"`

	// Annotations of the pods. Those of georegister.io/ are the operator's.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	Annotations map[string]string `json:"annotations,omitempty"`

	// Env is added to the environment of the members. Names that start with GEOREGISTER_ are the operator's.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	Env []corev1.EnvVar `json:"env,omitempty"`
}

// Monitoring asks for objects of the Prometheus operator.
type Monitoring struct {
	// Enabled makes a PodMonitor and a PrometheusRule, where the cluster has these kinds; the condition
	// MonitoringReady says if it has not.
	// +optional
	Enabled bool `json:"enabled,omitempty"`
}
