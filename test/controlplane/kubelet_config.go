//go:build controlplane

package controlplane

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/georegister/georegister/controllers/build"
	"github.com/georegister/georegister/replica/node"
	"github.com/georegister/georegister/witness"
)

// besides are the witnesses of a pod: one as a sidecar, or alone, or none. They read the file that config wrote beside
// its own.
func (k *Kubelet) besides(
	pod *corev1.Pod, directory string, at func(int) string,
) (all []func(context.Context) error, err error) {
	containers := pod.Spec.InitContainers
	alone := pod.Spec.Containers[0].Name == build.WitnessContainer
	if alone {
		containers = pod.Spec.Containers
	}
	for _, sidecar := range containers {
		if !alone && sidecar.RestartPolicy == nil || sidecar.Args[0] != "witness" {
			return nil, fmt.Errorf("the init container %s is no witness", sidecar.Name)
		}
		var self uint32
		if _, err := fmt.Sscan(sidecar.Args[len(sidecar.Args)-1], &self); err != nil {
			return nil, fmt.Errorf("the witness's --self: %w", err)
		}
		config, err := witness.LoadConfig(filepath.Join(directory, "witness.yaml"), self)
		if err != nil {
			return nil, err
		}
		config.Directory = filepath.Join(directory, config.Directory)
		config.Listen = witness.Listen{Peer: at(build.WitnessPort), HTTP: at(build.WitnessHTTPPort)}
		all = append(all, func(ctx context.Context) error { return witness.Run(ctx, config, witness.Options{}) })
	}
	return all, nil
}

// config reads the boot configuration as the pod's arguments say.
func (k *Kubelet) config(ctx context.Context, pod *corev1.Pod, directory string) (node.Config, error) {
	who, arguments := node.Who{}, pod.Spec.Containers[0].Args
	for i := 0; i+1 < len(arguments); i++ {
		switch arguments[i] {
		case "--self":
			if _, err := fmt.Sscan(arguments[i+1], &who.Self); err != nil {
				return node.Config{}, fmt.Errorf("--self %s: %w", arguments[i+1], err)
			}
		case "--site":
			who.Site = arguments[i+1]
		}
	}
	boot := &corev1.ConfigMap{}
	for _, volume := range pod.Spec.Volumes {
		if volume.ConfigMap == nil {
			continue
		}
		if err := k.api.Get(ctx,
			client.ObjectKey{Namespace: k.namespace, Name: volume.ConfigMap.Name}, boot); err != nil {
			return node.Config{}, err
		}
	}
	file := filepath.Join(directory, "boot.yaml")
	if err := os.WriteFile(file, []byte(boot.Data[build.BootKey]), 0o600); err != nil {
		return node.Config{}, err
	}
	if err := os.WriteFile(filepath.Join(directory, "witness.yaml"), []byte(boot.Data[build.WitnessKey]),
		0o600); err != nil {
		return node.Config{}, err
	}
	if pod.Spec.Containers[0].Name == build.WitnessContainer {
		return node.Config{}, nil
	}
	config, err := node.LoadConfig(file, who)
	if err == nil && config.TokenKeys != "" {
		config.TokenKeys, err = k.keys(ctx, pod, directory)
	}
	config.Directory = filepath.Join(directory, "data")
	return config, err
}
