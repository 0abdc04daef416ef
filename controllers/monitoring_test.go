package controllers

import (
	"context"
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/georegister/georegister/controllers/world"
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

func TestMonitoringKindsComeAndGo(t *testing.T) {
	var there []string // nil: the apiserver does not have the group
	var failure error  // of the next look
	watches, refused := 0, 0
	stopped := &removals{}
	m := &monitoring{
		cache: stopped,
		resources: func(ctx context.Context, version string) (*metav1.APIResourceList, error) {
			if version != "monitoring.coreos.com/v1" {
				t.Errorf("looked for %s", version)
			}
			if err := errors.Join(failure, ctx.Err()); err != nil {
				return nil, err
			}
			if there == nil {
				return nil, apierrors.NewNotFound(schema.GroupResource{}, version)
			}
			list := &metav1.APIResourceList{}
			for _, kind := range there {
				list.APIResources = append(list.APIResources, metav1.APIResource{Kind: kind})
			}
			return list, nil
		},
		watch: func(source.Source) error {
			if watches == refused-1 {
				refused = 0
				return errors.New("no more watches")
			}
			watches++
			return nil
		},
	}
	both := world.MonitoringKinds{PodMonitor: true, PrometheusRule: true}
	for _, step := range []struct {
		what    string
		there   []string
		failure error
		refused int // which watch is refused, counted over the test; 0: none
		fails   bool
		kinds   world.MonitoringKinds
		watches int // so far
		stops   int // so far
	}{
		{what: "the group is not there"},
		{what: "others of the group are", there: []string{"Prometheus", "PodMonitorList"}},
		{what: "one came", there: []string{"PodMonitor"}, kinds: world.MonitoringKinds{PodMonitor: true}, watches: 1},
		{what: "the apiserver is gone", failure: errors.New("connection refused"), fails: true, kinds: world.MonitoringKinds{PodMonitor: true}, watches: 1},
		{what: "the other came, and can't be watched", there: []string{"PodMonitor", "PrometheusRule"}, refused: 2, fails: true,
			kinds: world.MonitoringKinds{PodMonitor: true}, watches: 1},
		{what: "now it can", there: []string{"PodMonitor", "PrometheusRule"}, kinds: both, watches: 2},
		{what: "nothing new", there: []string{"PrometheusRule", "PodMonitor"}, kinds: both, watches: 2},
		{what: "one went", there: []string{"PrometheusRule"}, kinds: world.MonitoringKinds{PrometheusRule: true}, watches: 2, stops: 1},
		{what: "all went", watches: 2, stops: 2},
		{what: "both came, and the second can't be watched", there: []string{"PodMonitor", "PrometheusRule"}, refused: 4, fails: true, kinds: world.MonitoringKinds{}, watches: 3, stops: 2},
		{what: "both are there", there: []string{"PodMonitor", "PrometheusRule"}, kinds: both, watches: 4, stops: 2},
	} {
		there, failure, refused = step.there, step.failure, step.refused
		err := m.discover(t.Context())
		got := m.kinds()
		if step.refused == 4 { // which of the two is the first is not said
			if got.PodMonitor == got.PrometheusRule {
				t.Errorf("%s: %+v are taken for watched, want one", step.what, got)
			}
			got = step.kinds
		}
		if (err != nil) != step.fails || got != step.kinds || watches != step.watches || len(stopped.kinds) != step.stops {
			t.Errorf("%s: got %v, %+v, %d watches, %q stopped; want %+v", step.what, err, got, watches, stopped.kinds, step)
		}
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := m.discover(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("a look whose context has ended: %v", err)
	}
}
