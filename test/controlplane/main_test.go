//go:build controlplane

package controlplane

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// The control plane that all tests share: each has a namespace of its own.
var (
	environment *envtest.Environment
	auditLog    string
)

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	log.SetLogger(logr.Discard()) // each operator has the log of its test
	assets, err := assets()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	directory, err := os.MkdirTemp("", "controlplane-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(directory) }() // a temporary one
	if environment, auditLog, err = startControlPlane(assets, directory); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() {
		if err := environment.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}()
	return m.Run()
}

// assets is the directory of etcd and kube-apiserver.
func assets() (string, error) {
	if directory := os.Getenv("KUBEBUILDER_ASSETS"); directory != "" {
		return directory, nil
	}
	out, err := exec.Command("../../hack/kubernetes/build.sh", "assets").Output()
	if err != nil {
		return "", fmt.Errorf("set KUBEBUILDER_ASSETS, or build the control plane with hack/kubernetes/build.sh: %w", err)
	}
	lines := strings.Fields(string(out))
	if len(lines) == 0 {
		return "", errors.New("hack/kubernetes/build.sh did not say where the control plane is")
	}
	return lines[len(lines)-1], nil
}
