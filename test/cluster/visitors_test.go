//go:build cluster

package cluster

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/georegister/georegister/replica/history"
	"github.com/georegister/georegister/test/cluster/phases"
)

// judgeWithin bounds the search for a violation.
const judgeWithin = 2 * time.Minute

// visitors is a pod with clients at sites that come and go, whose history is judged and told by phases.
type visitors struct {
	s      *store
	pod    string
	began  time.Time
	phases []phases.Phase
}

// visit starts clients at sites, of which some may not exist yet. They use their own site alone.
func (s *store) visit(zone string, sites ...string) *visitors {
	s.t.Helper()
	v := &visitors{s: s, pod: "visitors-" + s.name}
	args := []string{`"run"`}
	for _, site := range sites {
		args = append(args, fmt.Sprintf(`"-site", "%s=%s-%s:7001"`, site, s.name, site))
	}
	manifest := fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  restartPolicy: Never
  nodeSelector: {topology.kubernetes.io/zone: %s}
  terminationGracePeriodSeconds: 1
  containers: [{name: load, image: "georegister-load:dev", imagePullPolicy: Never, args: [%s]}]
`, v.pod, zone, strings.Join(args, ", "))
	if out, err := kubectl(s.t.Context(), manifest, "apply", "-f", "-"); err != nil {
		s.t.Fatal(out, err)
	}
	s.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if s.t.Failed() {
			out, err := kubectl(ctx, "", "logs", v.pod)
			s.t.Logf("the clients' log: %v\n%s", err, out)
		}
		if _, err := kubectl(ctx, "", "delete", "pod", v.pod, "--grace-period=0", "--force"); err != nil {
			s.t.Log(err)
		}
	})
	began := regexp.MustCompile(`began (\S+)`)
	await(s.t, "the clients work", func() (string, bool) {
		out, err := kubectl(s.t.Context(), "", "logs", v.pod)
		if m := began.FindStringSubmatch(out); m != nil {
			v.began, _ = time.Parse(time.RFC3339Nano, m[1])
		}
		return fmt.Sprint(out, err), !v.began.IsZero() && strings.Contains(out, " operations")
	})
	return v
}

// during makes a phase of what is done meanwhile.
func (v *visitors) during(name string, sites []phases.Site, do func()) {
	v.s.t.Helper()
	// The nodes share this machine's clock.
	from := time.Since(v.began)
	do()
	v.phases = append(v.phases, phases.Phase{Name: name, From: from, To: time.Since(v.began), Sites: sites})
}

// quiet makes a phase in which nothing is done.
func (v *visitors) quiet(name string, length time.Duration, sites ...string) {
	v.s.t.Helper()
	v.during(name, phases.Stay(sites...), func() { time.Sleep(length) }) // it is what is measured
}

// verdict ends the clients' work, has every key read back at the given sites, fails the test unless the history is
// linearizable, and tells how each phase was.
func (v *visitors) verdict(last ...string) []phases.Row {
	t := v.s.t
	t.Helper()
	must(t, append([]string{"exec", v.pod, "--", "/load", "end"}, last...)...)
	await(t, "every key is read back", func() (string, bool) {
		out, err := kubectl(t.Context(), "", "logs", "--tail", "1", v.pod)
		if phase, _ := kubectl(t.Context(), "", "get", "pod", v.pod, "-o", "jsonpath={.status.phase}"); phase != "Running" {
			t.Fatalf("the clients' pod is %s: %s", phase, out)
		}
		return fmt.Sprint(out, err), strings.HasPrefix(out, "complete:")
	})
	operations, err := history.Read(strings.NewReader(must(t, "exec", v.pod, "--", "/load", "history")))
	if err != nil {
		t.Fatal(err)
	}
	if verdict := history.Check(operations, history.Options{Timeout: judgeWithin}); !verdict.OK() {
		t.Errorf("verdict %s, key %q: %s", verdict.Outcome, verdict.Key, verdict.Explanation)
	} else {
		t.Logf("linearizable: %d operations on %d keys, %d of unknown outcome", verdict.Operations, verdict.Keys, verdict.Unknown)
	}
	rows := phases.Rows(operations, v.phases)
	var table strings.Builder
	if err := phases.Table(&table, rows); err != nil {
		t.Fatal(err)
	}
	t.Logf("what the clients felt:\n%s", table.String())
	served(t, rows)
	return rows
}

// served fails the test if clients of a site had no success in a phase in which the site was there.
func served(t *testing.T, rows []phases.Row) {
	t.Helper()
	for _, r := range rows {
		if r.Succeeded == 0 {
			t.Errorf("%s: no success at site %s", r.Phase, r.Site)
		}
	}
}
