package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	adminv1 "github.com/georegister/georegister/api/admin/v1"
	grpclistener "github.com/georegister/georegister/replica/listener/grpc"
	httplistener "github.com/georegister/georegister/replica/listener/http"
	"github.com/georegister/georegister/replica/listener/operation"
	redislistener "github.com/georegister/georegister/replica/listener/redis"
	"github.com/georegister/georegister/replica/meter"
	"github.com/georegister/georegister/replica/proof"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/runtime"
	"github.com/georegister/georegister/replica/storage"
	"github.com/georegister/georegister/replica/transport"
	"github.com/georegister/georegister/replica/transport/codec"
	"github.com/georegister/georegister/replica/view"
)

// drainWithin bounds the orderly end of the listeners.
const drainWithin = 5 * time.Second

// Options are what a member is given beside its configuration.
type Options struct {
	Version string         // of the binary
	Log     *zap.Logger    // nil: none
	Dial    transport.Dial // to peers; nil: over TCP
	// ClientMemory is what clients may make the member hold if its configuration does not say, in bytes. 0:
	// operation.DefaultMemory.
	ClientMemory int64
	// Cache is how much memory records of the disk are kept in if the member's configuration does not say, in bytes. 0:
	// storage.DefaultCache.
	Cache int64
}

// node is a running member.
type node struct {
	config    Config
	options   Options
	log       *zap.Logger
	registry  *prometheus.Registry
	listeners listeners
	store     *storage.Store
	meter     *meter.Meter
	services  []service
	proofs    *proof.Keys // nil: the protocol has no sessions

	now        atomic.Pointer[memberState]
	offers     chan offer
	learned    chan view.View // capacity 1: a newer view that a peer told
	mistrusted string         // why the latest of them was refused
	viewsEnded chan struct{}  // closed when runViews has ended

	linking sync.Mutex
	cut     map[view.MemberID]bool // links that are cut, to play a partition
}

// service is a server behind one listener: of clients, probes or the operator.
type service struct {
	serve    func() error
	shutdown func(context.Context) error
}

// listeners are open before anything else happens, so that a port that is taken changes nothing on disk. They are by
// the name of the field of Listen; those that are not configured are missing.
type listeners map[string]net.Listener

// Run runs a member until the context ends, then drains it and returns nil; or until it fails, and returns
// why.
func Run(ctx context.Context, config Config, options Options) error {
	return newNode(config, options).run(ctx)
}

func newNode(config Config, options Options) *node {
	n := &node{
		config: config, options: options, log: cmp.Or(options.Log, zap.NewNop()), registry: prometheus.NewRegistry(),
		listeners: listeners{}, offers: make(chan offer), learned: make(chan view.View, 1),
		viewsEnded: make(chan struct{}), cut: map[view.MemberID]bool{},
	}
	for _, id := range config.Blocked {
		n.cut[id] = true
	}
	n.meter = meter.New(n)
	n.registry.MustRegister(
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return n
}

func (n *node) run(ctx context.Context) error {
	config, options := &n.config, &n.options
	if config.TokenKeys != "" {
		var err error
		if n.proofs, err = proof.Load(config.TokenKeys, config.Cluster); err != nil {
			return fmt.Errorf("tokenKeys: %w", err)
		}
	}
	if err := n.start(ctx); err != nil {
		return errors.Join(err, n.listeners.close())
	}
	n.log.Info("Member started", zap.Uint32("member", uint32(config.Self)), zap.String("site", n.site()),
		zap.Any("listen", config.Listen), zap.Uint32("starts", n.store.Boot()), zap.String("version", options.Version))
	return n.serve(ctx)
}

// start makes everything but serves nobody yet. After an error the listeners may be open.
func (n *node) start(ctx context.Context) error {
	if err := n.listen(); err != nil {
		return err
	}
	if err := n.openDisk(); err != nil {
		return err
	}
	// A stop that comes now is one in order, once everything is there.
	if err := n.begin(context.WithoutCancel(ctx), runtime.Inheritance{}, nil); err != nil {
		return errors.Join(err, n.store.Close())
	}
	if err := n.open(); err != nil {
		return errors.Join(err, n.stop())
	}
	return nil
}

// site is the member's own.
func (n *node) site() string { return cmp.Or(n.now.Load().site(n.config.Self), n.config.Site) }

func (n *node) listen() error {
	at := n.config.Listen
	for _, l := range []struct{ name, address string }{
		{"peer", at.Peer}, {"grpc", at.GRPC}, {"redis", at.Redis}, {"admin", at.Admin}, {"http", at.HTTP},
	} {
		if l.address == "" {
			continue
		}
		listener, err := net.Listen("tcp", l.address)
		if err != nil {
			return fmt.Errorf("listen.%s: %w", l.name, err)
		}
		n.listeners[l.name] = listener
	}
	return nil
}

func (l listeners) close() error {
	var errs []error
	for _, listener := range l {
		if err := listener.Close(); !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// open prepares the services whose listeners are configured.
func (n *node) open() error {
	c := n.config
	metrics := operation.NewMetrics(n.registry)
	options := operation.Options{
		Store: n.meter, Limits: c.limits(), Log: n.log, Metrics: metrics, Proofs: n.proofs,
		Memory: operation.NewMemory(c.clientMemory(n.options.ClientMemory), metrics, n.log),
		Identity: operation.Identity{
			Cluster: c.Cluster, Member: c.Self, Site: n.site(), Protocol: c.Protocol, Durability: c.Durability.String(),
		},
	}
	if l := n.listeners["grpc"]; l != nil {
		g, err := grpclistener.New(options)
		if err != nil {
			return err
		}
		n.services = append(n.services, service{func() error { return g.Serve(l) }, g.Shutdown})
	}
	if l := n.listeners["redis"]; l != nil {
		r, err := redislistener.New(redislistener.Options{Options: options})
		if err != nil {
			return err
		}
		n.services = append(n.services, service{func() error { return r.Serve(l) }, r.Shutdown})
	}
	if l := n.listeners["admin"]; l != nil {
		a := &admin{node: n}
		s := grpc.NewServer(grpc.MaxHeaderListSize(codec.MaxHeaderBytes), grpc.UnaryInterceptor(a.check))
		adminv1.RegisterAdminServer(s, a)
		n.services = append(n.services, service{
			func() error { return s.Serve(l) }, func(context.Context) error { s.Stop(); return nil },
		})
	}
	if l := n.listeners["http"]; l != nil {
		s := &http.Server{
			Handler:           httplistener.New(n, promhttp.HandlerFor(n.registry, promhttp.HandlerOpts{})),
			ReadHeaderTimeout: 10 * time.Second,
		}
		n.services = append(n.services, service{func() error { return ignoreClosed(s.Serve(l)) }, s.Shutdown})
	}
	return nil
}

// serve runs the services until the context ends, the member fails or a service does.
func (n *node) serve(ctx context.Context) error {
	group, running := errgroup.WithContext(ctx)
	for _, d := range n.services {
		group.Go(d.serve)
	}
	group.Go(func() error {
		n.watch(running)
		return nil
	})
	group.Go(func() error {
		failure := n.runViews(running)
		return errors.Join(failure, n.shutdown(failure != nil))
	})
	err := group.Wait()
	if err != nil {
		n.log.Error("Member failed", zap.Error(err))
	} else {
		n.log.Info("Member stopped")
	}
	return err
}

// shutdown ends the services, answering what is in flight, and then the member. After a failure nothing is
// answered any more, so that there is nothing to wait for.
func (n *node) shutdown(failed bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), drainWithin)
	defer cancel()
	var closing errgroup.Group
	for _, d := range n.services {
		closing.Go(func() error { return d.shutdown(ctx) })
	}
	if err := closing.Wait(); err != nil {
		n.log.Warn("Clients were cut off", zap.Error(err)) // they retry elsewhere; the stop is in order
	}
	err := n.stop()
	if failed {
		return n.listeners.close() // stop returns the reason, which is known
	}
	return errors.Join(err, n.listeners.close())
}

// stop ends the replica and closes the disk.
func (n *node) stop() error {
	if err := n.end(); err != nil {
		return err // the disk can't be trusted to be in order
	}
	return n.store.Close()
}

func ignoreClosed(err error) error {
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// Ready implements httplistener.Health. A newcomer that catches up is not ready: it can answer no client, or needs the
// members before the change for each answer, and as long as it is missing, a disruption budget must not let another
// member go.
func (n *node) Ready() error {
	now := n.now.Load()
	if now.replica == nil {
		return errors.New(now.why)
	}
	part := lost(now.replica.Partitions())
	switch err := now.replica.Err(); {
	case err != nil:
		return err
	case part != nil:
		return fmt.Errorf("this member can't be the %s of partition %d, and has to be replaced: %s",
			part.Role, part.Partition, part.Why)
	case now.replica.Doubted():
		return errors.New(
			"this member has just started, and waits for enough others to tell it that its disk is not an older copy")
	case !now.replica.Votes():
		return errors.New("this member does not vote yet: its disk was empty, and it fetches the others' state first")
	case !now.replica.Complete():
		return errors.New("this member joins, and has not fetched the others' state yet")
	}
	return nil
}

// Quorum implements httplistener.Health.
func (n *node) Quorum() error {
	now := n.now.Load()
	if now.replica == nil {
		return errors.New(now.why)
	}
	if err := now.replica.Err(); err != nil {
		return err
	}
	if !now.replica.Quorum() {
		return errors.New("no quorum in reach, or this member does not vote yet; see the admin port's status")
	}
	if i := now.replica.Unserved(); i >= 0 {
		return fmt.Errorf("the master of partition %d, member %d, is not in reach or does not serve yet",
			i, now.view.Partitions[i].Master)
	}
	return nil
}

// lost is the first partition whose part this member's disk can't fill, or nil.
func lost(parts []protocol.PartitionStatus) *protocol.PartitionStatus {
	if i := slices.IndexFunc(parts, func(p protocol.PartitionStatus) bool { return p.Lost }); i >= 0 {
		return &parts[i]
	}
	return nil
}
