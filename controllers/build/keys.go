package build

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/georegister/georegister/api/v1alpha1"
)

// Where a member finds the keys that prove what sessions depend on. A Secret can't be mounted below the boot file's
// directory.
const (
	keysVolume    = "token-keys"
	keysDirectory = "/etc/georegister-keys"
	// KeysKey is the file, and the key of the Secret.
	KeysKey = "keys"
)

// Keys is the Secret for a cluster whose protocol has sessions. It is made once, and never written again: its content
// is drawn then, and whoever replaces the keys does so by hand.
func Keys(cluster *v1alpha1.GeoRegisterCluster, drawn []byte) *corev1.Secret {
	return &corev1.Secret{
		TypeMeta:   kind("v1", "Secret"),
		ObjectMeta: owned(Input{Cluster: cluster}, SecretName(cluster.Name), Labels(cluster.Name)),
		Type:       corev1.SecretTypeOpaque, Data: map[string][]byte{KeysKey: drawn},
	}
}

// mountKeys gives a member's pod the keys, where its protocol has sessions.
func mountKeys(in Input, pod *corev1.PodSpec) {
	if !in.Cluster.Spec.Regular() {
		return
	}
	pod.Volumes = append(pod.Volumes, corev1.Volume{Name: keysVolume, VolumeSource: corev1.VolumeSource{
		Secret: &corev1.SecretVolumeSource{
			SecretName: SecretName(in.Cluster.Name),
			// The pod's group reads them: its user is not the owner of what is mounted.
			DefaultMode: new(int32(0o440)),
		},
	}})
	member := &pod.Containers[0]
	member.VolumeMounts = append(member.VolumeMounts,
		corev1.VolumeMount{Name: keysVolume, MountPath: keysDirectory, ReadOnly: true})
}
