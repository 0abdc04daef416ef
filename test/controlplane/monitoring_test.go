//go:build controlplane

package controlplane

import (
	"fmt"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/controllers/build"
)

// The kinds of the Prometheus operator come for this test alone, so no other runs beside it.
func TestMonitoringFollowsThePrometheusOperator(t *testing.T) {
	w := newWorld(t)
	operator := StartOperator(t, w.config, settings(w.namespace))
	c := w.create("store", func(s *v1alpha1.GeoRegisterClusterSpec) { s.Monitoring.Enabled = true })
	absent := w.condition(c, v1alpha1.ConditionMonitoringReady, metav1.ConditionFalse)
	if !strings.Contains(absent.Message, "install the Prometheus operator") {
		t.Errorf("without the kinds the condition says: %s", absent.Message)
	}
	w.serving(c)

	operator.Stop() // it looks for the kinds when it starts, and every few minutes
	crds := envtest.CRDInstallOptions{Paths: []string{"testdata/prometheus"}, ErrorIfPathMissing: true}
	if _, err := envtest.InstallCRDs(w.config, crds); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := envtest.UninstallCRDs(w.config, crds); err != nil {
			t.Error(err)
		}
		w.kindsAreGone(t, "monitoring.coreos.com/v1")
	})
	theirs := []client.Object{ // of the names of a cluster's
		&monitoringv1.PodMonitor{
			ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: build.MonitoringName("web")},
			Spec:       monitoringv1.PodMonitorSpec{PodMetricsEndpoints: []monitoringv1.PodMetricsEndpoint{}},
		},
		&monitoringv1.PrometheusRule{
			ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: build.MonitoringName("web")},
		},
	}
	for _, object := range theirs {
		if err := w.api.Create(w.ctx, object); err != nil {
			t.Fatal(err)
		}
	}
	web := w.create("web", func(s *v1alpha1.GeoRegisterClusterSpec) { s.Monitoring.Enabled = true })
	operator = StartOperator(t, w.config, settings(w.namespace))
	t.Cleanup(operator.Stop) // before the kinds go
	for _, object := range theirs {
		eventually(t, "a condition names what is theirs", func() string { return w.namesTaken(web, object) })
	}
	if err := w.api.Delete(w.ctx, web); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the second cluster's pods end", func() string {
		if pods := w.pods(); len(pods) != 3 {
			return fmt.Sprintf("there are the pods %v", pods)
		}
		return ""
	})
	for _, object := range theirs {
		w.isUntouched(object)
	}
	w.condition(c, v1alpha1.ConditionMonitoringReady, metav1.ConditionTrue)
	monitor, rule := w.monitoring(c)
	if endpoints := monitor.Spec.PodMetricsEndpoints; len(endpoints) != 1 || *endpoints[0].Port != build.HTTPPortName {
		t.Errorf("the PodMonitor has the endpoints %+v", endpoints)
	}
	if groups := rule.Spec.Groups; len(groups) == 0 || len(groups[0].Rules) == 0 {
		t.Errorf("the PrometheusRule has the groups %+v", groups)
	}
	if err := w.api.Delete(w.ctx, monitor); err != nil {
		t.Fatal(err)
	}
	w.monitoring(c)
	w.serving(c)

	w.change(c, func(s *v1alpha1.GeoRegisterClusterSpec) { s.Monitoring.Enabled = false })
	for _, object := range []client.Object{monitor, rule} {
		eventually(t, "what was for monitoring is removed", func() string {
			if err := w.api.Get(w.ctx, client.ObjectKeyFromObject(object), object); !apierrors.IsNotFound(err) {
				return object.GetName() + " is there"
			}
			return ""
		})
	}
	w.serving(c)
}

// monitoring waits until the objects of the Prometheus operator are there.
func (w *World) monitoring(c *v1alpha1.GeoRegisterCluster) (*monitoringv1.PodMonitor, *monitoringv1.PrometheusRule) {
	w.t.Helper()
	monitor, rule := &monitoringv1.PodMonitor{}, &monitoringv1.PrometheusRule{}
	for _, object := range []client.Object{monitor, rule} {
		eventually(w.t, "what is for monitoring is there", func() string {
			err := w.api.Get(w.ctx,
				client.ObjectKey{Namespace: c.Namespace, Name: build.MonitoringName(c.Name)}, object)
			if err != nil {
				return err.Error()
			}
			return ""
		})
	}
	return monitor, rule
}

// kindsAreGone waits until the apiserver serves no kind of a group: an operator that starts earlier would watch kinds
// that end under it.
func (w *World) kindsAreGone(t *testing.T, groupVersion string) {
	t.Helper()
	served, err := discovery.NewDiscoveryClientForConfig(w.config)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the apiserver serves no kind of "+groupVersion, func() string {
		if list, err := served.ServerResourcesForGroupVersion(groupVersion); !apierrors.IsNotFound(err) {
			return fmt.Sprintf("there are %+v (%v)", list, err)
		}
		return ""
	})
}
