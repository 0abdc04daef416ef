// Package apiserver runs a real kube-apiserver with its etcd for tests and benchmarks, and tells what it was asked.
package apiserver

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// auditPolicy writes down what users asked: every request when it is answered, a watch also when it starts. The
// users are a list of YAML; an empty one stands for everybody.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  users: [%s]
- level: None
`

// Assets is the directory of etcd and kube-apiserver: KUBEBUILDER_ASSETS, else that of hack/kubernetes, which
// builds what is missing there. Root is the project's directory.
func Assets(root string) (string, error) {
	if directory := os.Getenv("KUBEBUILDER_ASSETS"); directory != "" {
		return directory, nil
	}
	command := exec.Command(filepath.Join(root, "hack", "kubernetes", "build.sh"), "assets")
	command.Stderr = os.Stderr // says what is being built
	out, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("set KUBEBUILDER_ASSETS, or build the control plane with hack/kubernetes/build.sh: %w",
			err)
	}
	lines := strings.Fields(string(out))
	if len(lines) == 0 {
		return "", errors.New("hack/kubernetes/build.sh did not say where the control plane is")
	}
	return lines[len(lines)-1], nil
}

// Start starts an apiserver with the CRDs of the project, which is in root. It keeps its files in a directory that
// exists; one of them, which is returned, is its audit log, of the users alone if any are named. Stop the environment.
func Start(root, directory string, users ...string) (*envtest.Environment, string, error) {
	assets, err := Assets(root)
	if err != nil {
		return nil, "", err
	}
	policy, log := filepath.Join(directory, "audit-policy.yaml"), filepath.Join(directory, "audit.log")
	if err := os.WriteFile(policy, fmt.Appendf(nil, auditPolicy, strings.Join(users, ", ")), 0o600); err != nil {
		return nil, "", err
	}
	environment := &envtest.Environment{
		BinaryAssetsDirectory: assets,
		CRDDirectoryPaths:     []string{filepath.Join(root, "config", "crd", "bases")},
		ErrorIfCRDPathMissing: true,

		ControlPlaneStartTimeout: 2 * time.Minute, // of a machine that has much else to do
		ControlPlaneStopTimeout:  3 * time.Second, // then it is killed: it would wait a minute for watches to end
	}
	server := environment.ControlPlane.GetAPIServer()
	server.CertDir = filepath.Join(directory, "certificates") // they outlive a restart of the apiserver alone
	if err := os.MkdirAll(server.CertDir, 0o700); err != nil {
		return nil, "", err
	}
	server.Configure().
		Set("audit-policy-file", policy).Set("audit-log-path", log).Set("audit-log-mode", "blocking").
		Set("service-cluster-ip-range", "10.96.0.0/16") // the default of envtest has room for 254 Services
	if _, err := environment.Start(); err != nil {
		return nil, "", fmt.Errorf("start the control plane of %s: %w", assets, err)
	}
	return environment, log, nil
}

// Request is one line of the audit log.
type Request struct {
	Stage          string
	Verb           string
	RequestURI     string
	UserAgent      string
	User           struct{ Username string }
	ObjectRef      struct{ APIGroup, Resource, Subresource, Namespace, Name string }
	ResponseStatus struct{ Code int }
}

// Requests reads from an audit log, which may be growing, what a user asked: requests that were answered and
// watches that were started, in order.
func Requests(log io.Reader, user string) (all []Request, err error) {
	lines := bufio.NewReader(log)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return all, nil // without the line that is being written
		}
		if err != nil {
			return nil, fmt.Errorf("read the audit log: %w", err)
		}
		var r Request
		if err := json.Unmarshal(line, &r); err != nil {
			return nil, fmt.Errorf("read the audit log: %w", err)
		}
		last := "ResponseComplete"
		if r.Verb == "watch" {
			last = "ResponseStarted"
		}
		if r.User.Username == user && r.Stage == last {
			all = append(all, r)
		}
	}
}

// Role reads one of the generated roles of the operator from config/rbac.
func Role(root, name string) (*rbacv1.ClusterRole, error) {
	text, err := os.ReadFile(filepath.Join(root, "config", "rbac", "role.yaml"))
	if err != nil {
		return nil, err
	}
	for _, document := range strings.Split(string(text), "\n---\n") {
		role := &rbacv1.ClusterRole{}
		if err := yaml.Unmarshal([]byte(document), role); err != nil {
			return nil, fmt.Errorf("config/rbac/role.yaml: %w", err)
		}
		if role.Name == name {
			return role, nil
		}
	}
	return nil, fmt.Errorf("config/rbac/role.yaml has no role %s: make manifests generates it", name)
}
