//go:build controlplane

package controlplane

import (
	"context"
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
	cancel context.CancelFunc
	done   sync.WaitGroup
	client *members.Client
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
	ctx, cancel := context.WithCancel(context.Background())
	o := &Operator{cancel: cancel, client: members.NewClient()}
	manager, err := controllers.New(ctx, config, controllers.Options{
		Settings: s, Namespaces: []string{s.Namespace}, MaxConcurrent: 2,
		MetricsAddress: "0", HealthAddress: "0", Members: o.client, Registry: prometheus.NewRegistry(),
		Log: zapr.NewLogger(zaptest.NewLogger(t)),
	})
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
