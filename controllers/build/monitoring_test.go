package build

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/controllers/world"
)

// exported are the names of the metrics in the code of the members.
func exported(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	literal := regexp.MustCompile(`"(georegister_[a-z_]+)"`)
	for _, path := range []string{"../../replica/runtime/metrics.go", "../../replica/listener/operation/metrics.go"} {
		code, err := os.ReadFile(filepath.FromSlash(path))
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range literal.FindAllStringSubmatch(string(code), -1) {
			names[found[1]] = true
		}
	}
	if len(names) == 0 {
		t.Fatal("no metric was found in the code")
	}
	return names
}

var series = regexp.MustCompile(`\bgeoregister_[a-z_]+\{`)

func TestAlertsAskForMetricsThatExist(t *testing.T) {
	in, names := load(t, "full"), exported(t)
	cluster := `{namespace="stores",georegister_cluster="orders"`
	for _, r := range prometheusRule(in).Spec.Groups[0].Rules {
		expression := r.Expr.String()
		found := series.FindAllString(expression, -1)
		if len(found) == 0 {
			t.Errorf("%s asks for nothing: %s", r.Alert, expression)
		}
		for _, f := range found {
			name := strings.TrimSuffix(f, "{")
			if !names[name] && !names[strings.TrimSuffix(name, "_bucket")] {
				t.Errorf("%s asks for %s, which no member exports", r.Alert, name)
			}
		}
		if strings.Count(expression, cluster) != len(found) {
			t.Errorf("%s also sees other clusters: %s", r.Alert, expression)
		}
	}
}

func TestDashboardAsksForMetricsThatExist(t *testing.T) {
	text, err := os.ReadFile("../../config/grafana/georegister.json")
	if err != nil {
		t.Fatal(err)
	}
	names := exported(t)
	found := series.FindAllString(string(text), -1)
	if len(found) == 0 {
		t.Fatal("the dashboard asks for nothing")
	}
	for _, f := range found {
		name := strings.TrimSuffix(f, "{")
		if !names[name] && !names[strings.TrimSuffix(strings.TrimSuffix(name, "_bucket"), "_count")] {
			t.Errorf("the dashboard asks for %s, which no member exports", name)
		}
	}
}

func TestAlertsHaveRunbooks(t *testing.T) {
	page, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	in := load(t, "full")
	in.Cluster.Spec.Protocol = "CURP" // which has all of them
	for _, r := range prometheusRule(in).Spec.Groups[0].Rules {
		if !strings.Contains(string(page), "\n#### "+r.Alert+"\n") {
			t.Errorf("docs/operations.md has no section %s", r.Alert)
		}
		if want := Runbooks + "#" + strings.ToLower(r.Alert); r.Annotations["runbook_url"] != want {
			t.Errorf("%s leads to %s, want %s", r.Alert, r.Annotations["runbook_url"], want)
		}
		if !strings.HasPrefix(r.Annotations["summary"], "GeoRegisterCluster stores/orders: ") ||
			r.Labels["severity"] == "" {
			t.Errorf("%s does not say what it is about: %v %v", r.Alert, r.Annotations, r.Labels)
		}
	}
}

// What is asked for and can be made, is made; what was made and is not asked for, is unwanted; nothing else.
func TestMonitoringIsMadeWhereItsKindsAre(t *testing.T) {
	for _, c := range []struct {
		enabled        bool
		kinds          world.MonitoringKinds
		made, unwanted string
	}{
		{false, world.MonitoringKinds{}, "", ""},
		{true, world.MonitoringKinds{}, "", ""},
		{true, world.MonitoringKinds{PodMonitor: true}, "PodMonitor orders--monitoring;", ""},
		{true, world.MonitoringKinds{PrometheusRule: true}, "PrometheusRule orders--monitoring;", ""},
		{false, world.MonitoringKinds{PodMonitor: true, PrometheusRule: true}, "",
			"PodMonitor orders--monitoring;PrometheusRule orders--monitoring;"},
	} {
		in := load(t, "full")
		in.Cluster.Spec.Monitoring.Enabled, in.Monitoring = c.enabled, c.kinds
		var made, unwanted string
		for _, o := range Objects(in) {
			if kind := o.GetObjectKind().GroupVersionKind(); kind.Group == "monitoring.coreos.com" {
				made += fmt.Sprintf("%s %s;", kind.Kind, o.GetName())
			}
		}
		for _, o := range Unwanted(in) {
			unwanted += fmt.Sprintf("%s %s;", o.GetObjectKind().GroupVersionKind().Kind, o.GetName())
		}
		if made != c.made || unwanted != c.unwanted {
			t.Errorf("%+v: made %q, unwanted %q", c, made, unwanted)
		}
	}
}

func TestNoVolumeWithoutADisk(t *testing.T) {
	in := load(t, "minimal")
	in.Cluster.Spec.Storage.Durability = v1alpha1.Memory
	objects := Member(in, in.View.Members[0])
	if len(objects) != 1 || statefulSet(in, in.View.Members[0]).Spec.Template.Spec.Volumes[1].EmptyDir == nil {
		t.Errorf("a member in memory has %d objects, and no directory of its own", len(objects))
	}
	for _, r := range prometheusRule(in).Spec.Groups[0].Rules {
		if r.Alert == "GeoRegisterDiskFilling" {
			t.Error("a disk that is not there fills")
		}
	}
}
