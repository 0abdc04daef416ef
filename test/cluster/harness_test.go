//go:build cluster

package cluster

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/georegister/georegister/api/v1alpha1"
)

const (
	// namespace is where `make deploy` lets the operator look.
	namespace = "default"
	// patience bounds every wait for a condition.
	patience = 3 * time.Minute
	// pollEvery is not more often, as each kubectl costs the machine that is measured 50 ms.
	pollEvery = 500 * time.Millisecond
)

// zones are those of hack/cluster, and the sites of the manifest.
var zones = []string{"z1", "z2", "z3"}

// kubectl runs kubectl and returns what it printed.
func kubectl(ctx context.Context, input string, args ...string) (string, error) {
	command := exec.CommandContext(ctx, "kubectl", append([]string{"-n", namespace}, args...)...)
	command.Stdin = strings.NewReader(input)
	var out, trouble bytes.Buffer
	command.Stdout, command.Stderr = &out, &trouble
	if err := command.Run(); err != nil {
		return out.String(), fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err,
			strings.TrimSpace(trouble.String()))
	}
	return strings.TrimSpace(out.String()), nil
}

// must is kubectl that must succeed.
func must(t *testing.T, args ...string) string {
	t.Helper()
	out, err := kubectl(t.Context(), "", args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// await polls until a condition holds; it fails with what was seen last.
func await(t *testing.T, what string, condition func() (seen string, ok bool)) time.Duration {
	t.Helper()
	start := time.Now()
	for {
		seen, ok := condition()
		if ok {
			took := time.Since(start)
			t.Logf("%s: after %.1f s", what, took.Seconds())
			return took
		}
		if time.Since(start) > patience {
			t.Fatalf("waited %s until %s; last: %s", patience, what, seen)
		}
		time.Sleep(pollEvery)
	}
}

// store is a GeoRegisterCluster under test.
type store struct {
	t        *testing.T
	name     string
	protocol string
}

// site is a site of a store, with one member.
type site struct{ name, zone string }

// zonal are the sites that a store has at first: one in each zone, named like it.
func zonal() []site {
	sites := make([]site, len(zones))
	for i, zone := range zones {
		sites[i] = site{zone, zone}
	}
	return sites
}

// apply applies the store's manifest with these sites, and further lines of its spec.
func (s *store) apply(sites []site, further ...string) {
	s.t.Helper()
	manifest := fmt.Sprintf(`
apiVersion: georegister.io/v1alpha1
kind: GeoRegisterCluster
metadata: {name: %s}
spec:
  protocol: %s
  storage: {size: 64Mi}
  sites:
`, s.name, s.protocol)
	for _, site := range sites {
		manifest += fmt.Sprintf("  - {name: %s, nodePool: {value: %s}}\n", site.name, site.zone)
	}
	for _, line := range further {
		manifest += "  " + line + "\n"
	}
	if out, err := kubectl(s.t.Context(), manifest, "apply", "-f", "-"); err != nil {
		s.t.Fatal(out, err)
	}
}

// create applies a cluster with one member in each zone.
func create(t *testing.T, name string) *store {
	t.Helper()
	return createAs(t, name, "Gryff")
}

// createAs is create with a protocol.
func createAs(t *testing.T, name, protocol string) *store {
	t.Helper()
	s := &store{t, name, protocol}
	s.apply(zonal())
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if t.Failed() {
			for _, args := range [][]string{
				{"get", "grc", name, "-o", "yaml"}, {"get", "pods,pvc,statefulsets", "-o", "wide"},
				{"get", "events", "--sort-by", ".lastTimestamp"},
				{"logs", "-n", "georegister-system", "-l", "app.kubernetes.io/name=georegister-operator",
					"--tail", "200", "--prefix"},
				{"logs", "-l", "georegister.io/cluster=" + name, "--tail", "60", "--prefix"},
			} {
				out, err := kubectl(ctx, "", args...)
				t.Logf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
			}
		}
		for _, args := range [][]string{
			{"delete", "grc", name},
			{"delete", "pvc,configmap", "-l", "georegister.io/cluster=" + name, "--wait=false"},
		} {
			if _, err := kubectl(ctx, "", args...); err != nil {
				t.Log(err)
			}
		}
	})
	return s
}

// get reads a field of the resource by a JSONPath.
func (s *store) get(path string) string {
	out, err := kubectl(s.t.Context(), "", "get", "grc", s.name, "-o", "jsonpath="+path)
	if err != nil {
		return err.Error()
	}
	return out
}

// condition reads the status of a condition and its message.
func (s *store) condition(kind string) (status, message string) {
	at := `.status.conditions[?(@.type=="` + kind + `")]`
	status, message, _ = strings.Cut(s.get("{"+at+".status} {"+at+".message}"), " ")
	return status, message
}

// resource reads the whole resource.
func (s *store) resource() (*v1alpha1.GeoRegisterCluster, error) {
	out, err := kubectl(s.t.Context(), "", "get", "grc", s.name, "-o", "json")
	if err != nil {
		return nil, err
	}
	var r v1alpha1.GeoRegisterCluster
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		return nil, fmt.Errorf("read %s: %w", s.name, err)
	}
	return &r, nil
}

// settled waits until the resource's sites and no others have members, all of these serve, and nothing is under way.
func (s *store) settled(after string) time.Duration {
	s.t.Helper()
	return await(s.t, "settled after "+after, func() (string, bool) {
		r, err := s.resource()
		if err != nil {
			return err.Error(), false
		}
		return settled(r)
	})
}

// settled reports whether all is as it is wanted, and what there is.
func settled(r *v1alpha1.GeoRegisterCluster) (seen string, ok bool) {
	ok = r.Status.ObservedGeneration == r.Generation && r.Status.Change == nil
	seen = fmt.Sprintf("generation %d of %d; %s", r.Status.ObservedGeneration, r.Generation, changing(r))
	for _, want := range []struct {
		kind   string
		status metav1.ConditionStatus
	}{{"Available", "True"}, {"Progressing", "False"}, {"Degraded", "False"}} {
		c := meta.FindStatusCondition(r.Status.Conditions, want.kind)
		if c == nil {
			return seen + "; no condition " + want.kind, false
		}
		ok = ok && c.Status == want.status
		seen += fmt.Sprintf("; %s=%s %s: %s", want.kind, c.Status, c.Reason, c.Message)
	}
	var wanted, there []string
	for _, site := range r.Spec.Sites {
		wanted = append(wanted, site.Name)
	}
	for _, m := range r.Status.Members {
		there = append(there, m.Site)
	}
	slices.Sort(wanted)
	slices.Sort(there)
	return fmt.Sprintf("%s; members at %v", seen, there), ok && slices.Equal(wanted, there)
}

// changing tells the change that is under way.
func changing(r *v1alpha1.GeoRegisterCluster) string {
	epoch := int64(0)
	if r.Status.View != nil {
		epoch = r.Status.View.Epoch
	}
	c := r.Status.Change
	if c == nil {
		return fmt.Sprintf("epoch %d, no change", epoch)
	}
	return fmt.Sprintf("epoch %d, %s (joining %v, leaving %v, settled %s, fetched %s): %s",
		epoch, c.Step, c.Joining, c.Leaving, c.Settled, c.Fetched, c.Message)
}

// members are the ids of the status, by site.
func (s *store) members() map[string]string {
	ids := map[string]string{}
	for _, line := range strings.Fields(s.get(`{range .status.members[*]}{.site}={.id} {end}`)) {
		site, id, _ := strings.Cut(line, "=")
		ids[site] = id
	}
	return ids
}

// pod is the name of a site's pod.
func (s *store) pod(site string) string {
	return s.name + "--" + site + "--" + s.members()[site] + "-0"
}

// client starts a pod with redis-cli in each zone.
func clients(t *testing.T) {
	t.Helper()
	for _, zone := range zones {
		manifest := fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: client-%s, labels: {test: client}}
spec:
  nodeSelector: {topology.kubernetes.io/zone: %s}
  terminationGracePeriodSeconds: 0
  containers: [{name: client, image: "georegister-client:dev", imagePullPolicy: Never}]
`, zone, zone)
		if out, err := kubectl(t.Context(), manifest, "apply", "-f", "-"); err != nil {
			t.Fatal(out, err)
		}
	}
	must(t, "wait", "--for=condition=Ready", "pod", "-l", "test=client", "--timeout=60s")
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if _, err := kubectl(ctx, "", "delete", "pod", "-l", "test=client", "--wait=false"); err != nil {
			t.Log(err)
		}
	})
}

// redis runs redis-cli in a zone against a site's Service.
func (s *store) redis(zone, site string, args ...string) (string, error) {
	command := append(
		[]string{"exec", "client-" + zone, "--", "timeout", "10", "redis-cli", "-e", "-h", s.name + "--" + site},
		args...)
	return kubectl(s.t.Context(), "", command...)
}

// load is a pod that loads the store from every site and judges what it saw.
type load struct {
	s    *store
	name string
}

// load starts the load in a zone, through the headless Services of all sites.
func (s *store) load(zone string, duration time.Duration) *load {
	s.t.Helper()
	l := &load{s, "load-" + s.name}
	args := fmt.Sprintf(`"verify", "--protocol", %q, "--duration", %q, "--clients", "3", "--every", "20ms"`,
		s.protocol, duration)
	for _, site := range zones {
		args += fmt.Sprintf(`, "--site", "%s=%s--%s:7001"`, site, s.name, site)
	}
	image := cmp.Or(os.Getenv("IMAGE"), "georegister:dev")
	manifest := fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  restartPolicy: Never
  nodeSelector: {topology.kubernetes.io/zone: %s}
  containers: [{name: load, image: %q, imagePullPolicy: Never, args: [%s]}]
`, l.name, zone, image, args)
	if out, err := kubectl(s.t.Context(), manifest, "apply", "-f", "-"); err != nil {
		s.t.Fatal(out, err)
	}
	s.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if _, err := kubectl(ctx, "", "delete", "pod", l.name, "--grace-period=0", "--force"); err != nil {
			s.t.Log(err)
		}
	})
	await(s.t, "the load has begun", func() (string, bool) {
		out, err := kubectl(s.t.Context(), "", "logs", l.name)
		return fmt.Sprint(out, err), strings.Contains(out, " operations")
	})
	return l
}

var gap = regexp.MustCompile(`longest time without a success at site (\S+): (\S+),`)

// verdict waits for the end of the load, fails the test unless its history is linearizable, and returns the longest
// gaps by site.
func (l *load) verdict() map[string]time.Duration {
	l.s.t.Helper()
	var phase string
	await(l.s.t, "the load has ended", func() (string, bool) {
		phase, _ = kubectl(l.s.t.Context(), "", "get", "pod", l.name, "-o", "jsonpath={.status.phase}")
		return phase, phase == "Succeeded" || phase == "Failed"
	})
	report := must(l.s.t, "logs", l.name)
	l.s.t.Logf("the load's report:\n%s", report)
	if phase != "Succeeded" {
		l.s.t.Fatal("the load's verdict is not a good one")
	}
	gaps := map[string]time.Duration{}
	for _, m := range gap.FindAllStringSubmatch(report, -1) {
		length, err := time.ParseDuration(m[2])
		if err != nil {
			l.s.t.Fatal(err)
		}
		gaps[m[1]] = length
	}
	return gaps
}
