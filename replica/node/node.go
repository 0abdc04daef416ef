package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	adminv1 "github.com/georegister/georegister/api/admin/v1"
	"github.com/georegister/georegister/replica/meter"
	"github.com/georegister/georegister/replica/runtime"
	"github.com/georegister/georegister/replica/server"
	"github.com/georegister/georegister/replica/transport"
	"github.com/georegister/georegister/replica/view"
)

// drainWithin bounds the orderly end of the front doors: a little more than the runtime's own drain.
const drainWithin = 5 * time.Second

// node is a running member.
type node struct {
	config    Config
	log       *zap.Logger
	registry  *prometheus.Registry
	listeners listeners
	replica   *runtime.Replica
	meter     *meter.Meter
	doors     []door
}

// door is something that clients, probes or the operator talk to.
type door struct {
	serve    func() error
	shutdown func(context.Context) error
}

// listeners are open before anything else happens, so that a port that is taken changes nothing on disk.
// Those that are not configured are nil.
type listeners struct{ peer, grpc, redis, admin, http net.Listener }

// Run runs a member until the context ends, then drains it and returns nil; or until it fails, and returns
// why.
func Run(ctx context.Context, config Config, log *zap.Logger) error {
	n := &node{config: config, log: log, registry: prometheus.NewRegistry()}
	n.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	if err := n.listen(); err != nil {
		return errors.Join(err, n.listeners.close())
	}
	if err := n.start(ctx); err != nil {
		return errors.Join(err, n.listeners.close())
	}
	if err := n.open(); err != nil {
		return errors.Join(err, n.replica.Close(), n.listeners.close())
	}
	log.Info("Member started", zap.Uint32("member", uint32(config.Self)), zap.String("site", config.member(config.Self).Site),
		zap.Any("listen", config.Listen), zap.Uint32("boot", n.replica.Status().Boot))
	return n.serve(ctx)
}

func (n *node) listen() error {
	at := n.config.Listen
	for _, l := range []struct {
		name, address string
		listener      *net.Listener
	}{
		{"peer", at.Peer, &n.listeners.peer}, {"grpc", at.GRPC, &n.listeners.grpc}, {"redis", at.Redis, &n.listeners.redis},
		{"admin", at.Admin, &n.listeners.admin}, {"http", at.HTTP, &n.listeners.http},
	} {
		if l.address == "" {
			continue
		}
		listener, err := net.Listen("tcp", l.address)
		if err != nil {
			return fmt.Errorf("listen.%s: %w", l.name, err)
		}
		*l.listener = listener
	}
	return nil
}

func (l listeners) close() error {
	var errs []error
	for _, listener := range []net.Listener{l.peer, l.grpc, l.redis, l.admin, l.http} {
		if listener == nil {
			continue
		}
		if err := listener.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// start starts the replica, cut off from those that the configuration says.
func (n *node) start(ctx context.Context) (err error) {
	c := n.config
	n.replica, err = runtime.Start(ctx, runtime.Options{
		View: c.View(), Self: c.Self, Protocol: strings.ToLower(c.Protocol), Shards: c.Shards,
		Directory: c.Directory, Durability: c.Durability, FlushEvery: time.Duration(c.FlushEvery),
		Listener:    n.listeners.peer,
		OneWayDelay: func(from view.MemberID) time.Duration { return time.Duration(c.member(from).RTT) / 2 },
		Jitter:      func(from view.MemberID) time.Duration { return time.Duration(c.member(from).Jitter) },
		Limits:      c.limits(), Bootstrap: c.Bootstrap, Seed: uint64(c.Self),
		Metrics: n.registry, Logger: n.log,
	})
	if err != nil {
		return err
	}
	for _, m := range c.Members {
		if m.Blocked {
			if err := n.replica.Block(m.ID, transport.Outgoing|transport.Incoming); err != nil {
				return errors.Join(err, n.replica.Close())
			}
		}
	}
	n.meter = meter.New(n.replica)
	return nil
}

// open prepares the doors that are configured.
func (n *node) open() error {
	c := n.config
	options := server.Options{
		Store: n.meter, Limits: c.limits(), Log: n.log, Metrics: server.NewMetrics(n.registry),
		Identity: server.Identity{Cluster: c.Cluster, Member: c.Self, Site: c.member(c.Self).Site, Protocol: c.Protocol},
	}
	if l := n.listeners.grpc; l != nil {
		g, err := server.NewGRPC(options)
		if err != nil {
			return err
		}
		n.doors = append(n.doors, door{func() error { return g.Serve(l) }, g.Shutdown})
	}
	if l := n.listeners.redis; l != nil {
		r, err := server.NewRedis(server.RedisOptions{Options: options})
		if err != nil {
			return err
		}
		n.doors = append(n.doors, door{func() error { return r.Serve(l) }, r.Shutdown})
	}
	if l := n.listeners.admin; l != nil {
		s := grpc.NewServer()
		adminv1.RegisterAdminServer(s, &admin{node: n})
		n.doors = append(n.doors, door{func() error { return s.Serve(l) }, func(context.Context) error { s.Stop(); return nil }})
	}
	if l := n.listeners.http; l != nil {
		s := &http.Server{
			Handler:           server.NewHTTP(health{n.replica}, promhttp.HandlerFor(n.registry, promhttp.HandlerOpts{})),
			ReadHeaderTimeout: 10 * time.Second,
		}
		n.doors = append(n.doors, door{func() error { return ignoreClosed(s.Serve(l)) }, s.Shutdown})
	}
	return nil
}

// serve runs the doors until the context ends, the replica fails or a door does.
func (n *node) serve(ctx context.Context) error {
	group, running := errgroup.WithContext(ctx)
	for _, d := range n.doors {
		group.Go(d.serve)
	}
	group.Go(func() error {
		n.watch(running)
		return nil
	})
	group.Go(func() error {
		var failure error
		select {
		case <-running.Done():
		case <-n.replica.Done():
			failure = n.replica.Err()
		}
		return errors.Join(failure, n.shutdown())
	})
	err := group.Wait()
	if err != nil {
		n.log.Error("Member failed", zap.Error(err))
	} else {
		n.log.Info("Member stopped")
	}
	return err
}

// shutdown closes the doors, answering what is in flight, and then the replica. After a failure nothing is
// answered any more, so that there is nothing to wait for.
func (n *node) shutdown() error {
	ctx, cancel := context.WithTimeout(context.Background(), drainWithin)
	defer cancel()
	var closing errgroup.Group
	for _, d := range n.doors {
		closing.Go(func() error { return d.shutdown(ctx) })
	}
	if err := closing.Wait(); err != nil {
		n.log.Warn("Clients were cut off", zap.Error(err)) // they retry elsewhere; the stop is in order
	}
	if n.replica.Err() != nil {
		_ = n.replica.Close() // returns the reason, which is known
		return nil
	}
	return n.replica.Close()
}

func ignoreClosed(err error) error {
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// health answers the probes.
type health struct{ replica *runtime.Replica }

// Ready implements server.Health. A newcomer that catches up serves its role.
func (h health) Ready() error { return h.replica.Err() }

// Quorum implements server.Health.
func (h health) Quorum() error {
	if err := h.replica.Err(); err != nil {
		return err
	}
	if !h.replica.Quorum() {
		return errors.New("no quorum in reach, or this member does not vote yet; see the admin port's status")
	}
	return nil
}
