//go:build cluster

package cluster

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
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
	// changes are the names of those phases in which members change. Each follows one in which they don't.
	changes []string
}

// visit starts clients at sites, of which some may not exist yet. They use their own site alone.
func (s *store) visit(zone string, sites ...string) *visitors {
	s.t.Helper()
	v := &visitors{s: s, pod: "visitors-" + s.name}
	args := []string{`"run"`}
	for _, site := range sites {
		args = append(args, fmt.Sprintf(`"-site", "%s=%s--%s:7001"`, site, s.name, site))
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
	log := v.log("the clients work", " operations\n")
	began := regexp.MustCompile(`began (\S+)`).FindStringSubmatch(log)
	if began == nil {
		s.t.Fatalf("the clients' log does not tell when they began: %s", log)
	}
	var err error
	if v.began, err = time.Parse(time.RFC3339Nano, began[1]); err != nil {
		s.t.Fatal(err)
	}
	return v
}

// during makes a phase of a change, which ends when the sites that join in it have served clients.
func (v *visitors) during(name string, sites []phases.Site, change func()) {
	v.s.t.Helper()
	v.changes = append(v.changes, name)
	v.phase(name, sites, func() {
		change()
		for _, site := range sites {
			if site.Joins {
				v.log("site "+site.Name+" serves", "\nsite "+site.Name+" serves\n")
			}
		}
	})
}

// quiet makes a phase in which nothing is done.
func (v *visitors) quiet(name string, length time.Duration, sites ...string) {
	v.s.t.Helper()
	v.phase(name, phases.Stay(sites...), func() { time.Sleep(length) }) // it is what is measured
}

// phase makes a phase of what is done meanwhile.
func (v *visitors) phase(name string, sites []phases.Site, do func()) {
	// The nodes share this machine's clock.
	from := time.Since(v.began)
	do()
	v.phases = append(v.phases, phases.Phase{Name: name, From: from, To: time.Since(v.began), Sites: sites})
}

// log waits until the clients' log has a text, and returns the log.
func (v *visitors) log(what, text string) string {
	v.s.t.Helper()
	var log string
	await(v.s.t, what, func() (string, bool) {
		log, _ = kubectl(v.s.t.Context(), "", "logs", v.pod)
		if phase, _ := kubectl(v.s.t.Context(), "", "get", "pod", v.pod, "-o",
			"jsonpath={.status.phase}"); phase == "Failed" {
			v.s.t.Fatalf("the clients' pod failed: %s", log)
		}
		return log, strings.Contains(log+"\n", text)
	})
	return log
}

// verdict ends the clients' work, has every key read back at the given sites, fails the test unless the history is
// linearizable, and tells how each phase was.
func (v *visitors) verdict(last ...string) {
	t := v.s.t
	t.Helper()
	must(t, append([]string{"exec", v.pod, "--", "/load", "end"}, last...)...)
	v.log("every key is read back", "\ncomplete: ")
	record, err := history.ReadRecord(v.s.t.Context(),
		strings.NewReader(must(t, "exec", v.pod, "--", "/load", "history")), false)
	if err != nil {
		t.Fatal(err)
	}
	operations := record.Operations
	if verdict := history.Check(v.s.t.Context(), operations, history.Options{Timeout: judgeWithin}); !verdict.OK() {
		t.Errorf("verdict %s, key %q: %s", verdict.Outcome, verdict.Key, verdict.Explanation)
	} else {
		t.Logf("linearizable: %d operations on %d keys, %d of unknown outcome", verdict.Operations,
			verdict.Keys, verdict.Unknown)
	}
	rows := phases.Rows(operations, v.phases)
	var table strings.Builder
	if err := phases.Table(&table, rows); err != nil {
		t.Fatal(err)
	}
	t.Logf("what the clients felt:\n%s", table.String())
	for _, r := range rows {
		if r.Succeeded == 0 {
			t.Errorf("%s: no success at site %s, which was there", r.Phase, r.Site)
		}
	}
	v.target(rows)
}

// target tells how far each change was from what it should cost at a site that stays: no gap of more than a second, as
// round trips are short here, and a p99 of at most twice the one in the phase before. It fails nothing: the machine is
// shared.
func (v *visitors) target(rows []phases.Row) {
	v.s.t.Helper()
	before := map[string]phases.Row{}
	for _, now := range rows {
		was, stayed := before[now.Site]
		before[now.Site] = now
		if !stayed || !slices.Contains(v.changes, now.Phase) {
			continue
		}
		verdict := "met"
		if now.Gap > time.Second || now.P99 > 2*was.P99 {
			verdict = "missed"
		}
		v.s.t.Logf("target %s in %q at site %s: gap %s, p99 %s after %s", verdict, now.Phase, now.Site,
			now.Gap.Round(time.Millisecond), now.P99.Round(time.Millisecond/10), was.P99.Round(time.Millisecond/10))
	}
}
