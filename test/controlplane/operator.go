//go:build controlplane

package controlplane

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/zapr"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap/zaptest"
	"k8s.io/client-go/rest"

	"github.com/georegister/georegister/controllers"
	"github.com/georegister/georegister/controllers/members"
	"github.com/georegister/georegister/controllers/world"
)

// Operator is an operator that runs in this process.
type Operator struct {
	cancel  context.CancelFunc
	done    sync.WaitGroup
	client  *members.Client
	elected chan struct{} // closed when it leads for the first time
	lost    chan struct{} // closed when it has lost the lease for the first time
}

// settings are those of an operator in a test.
func settings(namespace string) world.Settings {
	return world.Settings{
		DefaultImage: "georegister:test", ClusterDomain: "cluster.local", Namespace: namespace, Version: "test",
		LostAfter: 2 * time.Second,
	}
}

// StartOperator runs an operator for one namespace until Stop, or until the test ends.
func StartOperator(t *testing.T, config *rest.Config, s world.Settings) *Operator {
	t.Helper()
	return startOperator(t, config, controllers.Options{Settings: s}, nil)
}

// StartElectedOperator runs an operator that works while it holds a lease, which is short.
func StartElectedOperator(t *testing.T, config *rest.Config, s world.Settings) *Operator {
	t.Helper()
	return startOperator(t, config, controllers.Options{
		Settings: s, LeaderElect: true,
		LeaseDuration: 4 * time.Second, RenewDeadline: 3 * time.Second, RetryPeriod: 500 * time.Millisecond,
	}, nil)
}

// StartValvedOperator runs an operator whose writes, to the apiserver and to members, pass through a valve.
func StartValvedOperator(t *testing.T, config *rest.Config, s world.Settings, v valve) *Operator {
	t.Helper()
	return startOperator(t, config, controllers.Options{Settings: s}, v)
}

func startOperator(t *testing.T, config *rest.Config, options controllers.Options, v valve) *Operator {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	o := &Operator{cancel: cancel, client: members.NewClient(), elected: make(chan struct{}), lost: make(chan struct{})}
	var talk members.Members = o.client
	if v != nil {
		config = rest.CopyConfig(config)
		config.Wrap(func(next http.RoundTripper) http.RoundTripper { return writes{v, next} })
		talk = told{talk, v}
	}
	options.Namespaces, options.MaxConcurrent = []string{options.Settings.Namespace}, 2
	var first, last sync.Once
	options.Leads = func(leads bool) {
		if leads {
			first.Do(func() { close(o.elected) })
		} else {
			last.Do(func() { close(o.lost) })
		}
	}
	options.MetricsAddress, options.HealthAddress = "0", "0"
	options.Registry = prometheus.NewRegistry()
	if options.Members == nil {
		options.Members = talk
	}
	options.Log = zapr.NewLogger(zaptest.NewLogger(t))
	manager, err := controllers.New(ctx, config, options)
	if err != nil {
		t.Fatal(err)
	}
	o.done.Go(func() {
		if err := manager.Start(ctx); err != nil {
			t.Errorf("the operator ended: %v", err)
		}
	})
	t.Cleanup(o.Stop)
	return o
}

// Stop ends the operator in order. A second time does nothing.
func (o *Operator) Stop() {
	o.cancel()
	o.done.Wait()
	o.client.Close()
}
