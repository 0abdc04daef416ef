//go:build controlplane

package controlplane

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/client"
	"github.com/georegister/georegister/replica/history"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/workload"
	"github.com/georegister/georegister/workload/checked"
)

// Load is clients at every site of a cluster, whose history is judged in the end.
type Load struct {
	t        *testing.T
	protocol string
	sites    []workload.Site
	recorder *history.Recorder
	answered atomic.Int64
	failed   atomic.Int64 // operations that ended as unavailable or unknown
	stop     context.CancelFunc
	done     chan error
}

// impatience is how long clients wait for a member before they ask another one.
const impatience = time.Second

// StartLoad runs clients against a cluster that serves, until Finish.
func StartLoad(t *testing.T, k *Kubelet, cluster *v1alpha1.GeoRegisterCluster) *Load {
	t.Helper()
	return startLoad(t, k, cluster, impatience)
}

// StartPatientLoad runs clients that wait for an answer for as long as a test may take: what they end without one does
// not come from a machine that is busy.
func StartPatientLoad(t *testing.T, k *Kubelet, cluster *v1alpha1.GeoRegisterCluster) *Load {
	t.Helper()
	return startLoad(t, k, cluster, within)
}

func startLoad(t *testing.T, k *Kubelet, cluster *v1alpha1.GeoRegisterCluster, patience time.Duration) *Load {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	l := &Load{
		t: t, protocol: cluster.Spec.Protocol, recorder: history.NewRecorder(nil), stop: stop,
		done: make(chan error, 1),
	}
	spec, err := checked.Spec(cluster.Spec.Protocol)
	if err != nil {
		t.Fatal(err)
	}
	spec.KeyCount = 20
	for _, site := range cluster.Spec.Sites {
		l.sites = append(l.sites, l.site(k, cluster, site.Name, patience))
	}
	loop := workload.Loop{
		Spec: spec, Sites: l.sites, Clients: 2, Seed: 1, Recorder: l.recorder,
		FenceEvery: checked.FenceEvery(cluster.Spec.Protocol),
		// A bound that no test reaches; the rest of the machine works too.
		Duration: 10 * time.Minute, Every: 20 * time.Millisecond,
	}
	go func() {
		_, err := loop.Run(ctx)
		l.done <- err
	}()
	t.Cleanup(stop)
	return l
}

// sites are those that tests have nodes for.
var sites = []string{"ca", "va", "ir", "or", "jp"}

// site is a site whose clients prefer its own members, found as by the site's Service, and then those of any other
// site, also of one that is added later.
func (l *Load) site(
	k *Kubelet, cluster *v1alpha1.GeoRegisterCluster, name string, patience time.Duration,
) workload.Site {
	endpoints := []client.Endpoint{{Site: name, Address: "passthrough:///" + name}}
	for _, other := range sites {
		if other != name {
			endpoints = append(endpoints, client.Endpoint{Site: other, Address: "passthrough:///" + other})
		}
	}
	connect := func(ctx context.Context, _ int) (workload.Doer, error) {
		c, err := k.connect(ctx, cluster.Name, endpoints, patience)
		if err != nil {
			return nil, err
		}
		l.t.Cleanup(func() { _ = c.Close() }) // of a store that may be gone
		return counted{checked.Doer(c.Session), l}, nil
	}
	return workload.Site{Name: name, Connect: connect}
}

// connect is a client of a cluster, whose endpoints have the names of sites as addresses.
func (k *Kubelet) connect(
	ctx context.Context, cluster string, endpoints []client.Endpoint, patience time.Duration,
) (*client.Client, error) {
	dial := grpc.WithContextDialer(func(ctx context.Context, site string) (net.Conn, error) {
		return k.dialSite(ctx, cluster, site)
	})
	return client.Dial(ctx, client.Options{
		Endpoints: endpoints, InOrder: true, AttemptTimeout: patience, DialOptions: []grpc.DialOption{dial},
	})
}

// counted counts what was answered, and what failed.
type counted struct {
	workload.Doer
	load *Load
}

func (c counted) Do(ctx context.Context, op register.Operation) register.Result {
	result := c.Doer.Do(ctx, op)
	if op.Kind == register.Fence {
		return result // it may have asked nobody
	}
	if result.Status == register.OK {
		c.load.answered.Add(1)
	} else if result.Status == register.Unknown || result.Status == register.Unavailable {
		c.load.failed.Add(1)
	}
	return result
}

// Progress waits until so many more operations were answered: the store serves.
func (l *Load) Progress(operations int64) {
	l.t.Helper()
	target := l.answered.Load() + operations
	eventually(l.t, "clients are served", func() string {
		if now := l.answered.Load(); now < target {
			return fmt.Sprintf("%d of %d operations were answered", operations-(target-now), operations)
		}
		return ""
	})
}

// Finish ends the load, reads every key back at every site, and judges the history.
func (l *Load) Finish() {
	l.t.Helper()
	l.stop()
	if err := <-l.done; err != nil {
		l.t.Fatalf("the load: %v", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	if err := checked.ReadBack(ctx, l.sites, l.recorder); err != nil {
		l.t.Fatal(err)
	}
	record, report := l.recorder.Record(), workload.NewReport()
	if err := checked.Judge(ctx, l.protocol, record, report); err != nil {
		l.t.Fatal(err)
	}
	l.t.Logf("%s: %d operations, %d answered, %d unavailable or unknown", report.Verdict, len(record.Operations),
		l.answered.Load(), l.failed.Load())
}

// dialSite connects to the gRPC listener of a running member of a site, one that is ready if there is any.
func (k *Kubelet) dialSite(ctx context.Context, cluster, site string) (net.Conn, error) {
	k.mu.Lock()
	var addresses []string
	for name, p := range k.running { // order is irrelevant: any member of the site serves
		switch {
		case p.alone || !strings.HasPrefix(name, cluster+"--"+site+"--"):
		case p.ready.Load():
			addresses = slices.Insert(addresses, 0, p.address)
		default:
			addresses = append(addresses, p.address)
		}
	}
	k.mu.Unlock()
	err := fmt.Errorf("no such host: %s", site)
	for _, address := range addresses {
		var conn net.Conn
		if conn, err = (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(address, "7001")); err == nil {
			return conn, nil
		}
	}
	return nil, err
}
