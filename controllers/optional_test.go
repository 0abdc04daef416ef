package controllers

import (
	"context"
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/georegister/georegister/controllers/chaosmesh"
)

// removals is a cache that notes which kinds are not watched any more.
type removals struct {
	cache.Cache
	kinds []string
}

func (r *removals) RemoveInformer(_ context.Context, o client.Object) error {
	r.kinds = append(r.kinds, o.GetObjectKind().GroupVersionKind().Kind)
	return nil
}

// groups is what the apiserver has, by version; a version that is not there is not found.
type groups map[string][]string

func TestOptionalKindsComeAndGo(t *testing.T) {
	const prometheus, chaos = "monitoring.coreos.com/v1", "chaos-mesh.org/v1alpha1"
	var there groups
	failures := map[string]error{} // of the next look, by version
	watches, refused := 0, 0
	stopped := &removals{}
	o := &optional{
		cache: stopped,
		resources: func(ctx context.Context, version string) (*metav1.APIResourceList, error) {
			if version != prometheus && version != chaos {
				t.Errorf("looked for %s", version)
			}
			if err := errors.Join(failures[version], ctx.Err()); err != nil {
				return nil, err
			}
			kinds, ok := there[version]
			if !ok {
				return nil, apierrors.NewNotFound(schema.GroupResource{}, version)
			}
			list := &metav1.APIResourceList{}
			for _, kind := range kinds {
				list.APIResources = append(list.APIResources, metav1.APIResource{Kind: kind})
			}
			return list, nil
		},
		watch: func(source.Source) error {
			if refused--; refused == 0 {
				return errors.New("no more watches")
			}
			watches++
			return nil
		},
	}
	for _, step := range []struct {
		what    string
		there   groups
		failure string // the version that can't be looked for
		refused int    // which of the watches that are tried is refused; 0: none
		fails   bool
		kinds   string
		watches int // so far
		stops   int // so far
	}{
		{what: "no group is there"},
		{
			what:  "others of the groups are",
			there: groups{prometheus: {"Prometheus", "PodMonitorList"}, chaos: {"PodChaos"}},
		},
		{what: "one came", there: groups{prometheus: {"PodMonitor"}}, kinds: "PodMonitor", watches: 1},
		{what: "the apiserver can't say, and another came",
			there: groups{prometheus: {"PodMonitor"}, chaos: {"NetworkChaos"}}, failure: prometheus,
			fails: true, kinds: "PodMonitor NetworkChaos", watches: 2},
		{
			what: "it went again", there: groups{prometheus: {"PodMonitor"}, chaos: {"PodChaos"}}, kinds: "PodMonitor",
			watches: 2, stops: 1,
		},
		{what: "the second came, and can't be watched", there: groups{prometheus: {"PodMonitor", "PrometheusRule"}},
			refused: 1, fails: true,
			kinds: "PodMonitor", watches: 2, stops: 1},
		{
			what: "now it can", there: groups{prometheus: {"PodMonitor", "PrometheusRule"}},
			kinds: "PodMonitor PrometheusRule", watches: 3, stops: 1,
		},
		{
			what: "nothing new", there: groups{prometheus: {"PrometheusRule", "PodMonitor"}},
			kinds: "PodMonitor PrometheusRule", watches: 3, stops: 1,
		},
		{
			what: "one went", there: groups{prometheus: {"PrometheusRule"}}, kinds: "PrometheusRule",
			watches: 3, stops: 2,
		},
		{what: "all went", watches: 3, stops: 3},
		{what: "all came, and the first can't be watched",
			there:   groups{prometheus: {"PodMonitor", "PrometheusRule"}, chaos: {"NetworkChaos"}},
			refused: 1, fails: true, kinds: "PrometheusRule NetworkChaos", watches: 5, stops: 3},
	} {
		there, refused = step.there, step.refused
		clear(failures)
		if step.failure != "" {
			failures[step.failure] = errors.New("connection refused")
		}
		err := o.discover(t.Context())
		var kinds []string
		for _, kind := range []schema.GroupVersionKind{podMonitor, prometheusRule, chaosmesh.Kind} {
			if o.has(kind) {
				kinds = append(kinds, kind.Kind)
			}
		}
		if got := strings.Join(kinds, " "); (err != nil) != step.fails || got != step.kinds ||
			watches != step.watches || len(stopped.kinds) != step.stops {
			t.Errorf("%s: got %v, %q, %d watches, %q stopped; want %+v", step.what, err, got, watches,
				stopped.kinds, step)
		}
	}
	if got := o.monitoring(); got.PodMonitor || !got.PrometheusRule {
		t.Errorf("of the Prometheus operator there are %+v", got)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := o.discover(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("a look whose context has ended: %v", err)
	}
}
