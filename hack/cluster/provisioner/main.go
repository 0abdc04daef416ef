// Command provisioner gives a cluster whose nodes share one machine dynamic local volumes: a directory per claim,
// below the directory of the node that the scheduler chose, for the StorageClasses that name it.
//
// A volume goes, data and all, once its claim is gone and its reclaim policy is Delete. Growth is confirmed without
// doing anything, as nothing bounds a directory's size either.
package main

import (
	"flag"
	"fmt"
	"os"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	metrics "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

func main() {
	root := flag.String("root", "", "the directory that holds ROOT/NODE/volumes for each node")
	flag.Parse() // --kubeconfig is controller-runtime's own flag
	ctrl.SetLogger(klog.Background())
	if err := run(*root); err != nil {
		fmt.Fprintln(os.Stderr, "provisioner:", err)
		os.Exit(1)
	}
}

// run serves claims and volumes until it is told to end.
func run(root string) error {
	config, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("read the kubeconfig: %w", err)
	}
	m, err := ctrl.NewManager(config, ctrl.Options{Metrics: metrics.Options{BindAddress: "0"}})
	if err != nil {
		return fmt.Errorf("reach the cluster: %w", err)
	}
	p := &provisioner{client: m.GetClient(), root: root}
	if err := ctrl.NewControllerManagedBy(m).For(&corev1.PersistentVolumeClaim{}).Complete(p.claims()); err != nil {
		return fmt.Errorf("watch claims: %w", err)
	}
	if err := ctrl.NewControllerManagedBy(m).For(&corev1.PersistentVolume{}).Complete(p.volumes()); err != nil {
		return fmt.Errorf("watch volumes: %w", err)
	}
	return m.Start(ctrl.SetupSignalHandler())
}
