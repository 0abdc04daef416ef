//go:build controlplane

package controlplane

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/georegister/georegister/controllers/build"
)

// keys mounts the pod's Secret.
func (k *Kubelet) keys(ctx context.Context, pod *corev1.Pod, directory string) (string, error) {
	file := filepath.Join(directory, "token-keys")
	for _, volume := range pod.Spec.Volumes {
		if volume.Secret == nil {
			continue
		}
		secret := &corev1.Secret{}
		err := k.api.Get(ctx, client.ObjectKey{Namespace: k.namespace, Name: volume.Secret.SecretName}, secret)
		if err != nil {
			return "", err
		}
		return file, os.WriteFile(file, secret.Data[build.KeysKey], 0o600)
	}
	return "", errors.New("the pod has no Secret with keys")
}
