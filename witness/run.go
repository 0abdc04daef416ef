package witness

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/georegister/georegister/witness/core"
	"github.com/georegister/georegister/witness/disk"
	"github.com/georegister/georegister/witness/server"
)

// drainWithin bounds the orderly end of the listeners.
const drainWithin = 5 * time.Second

// Options are what a witness is given beside its configuration.
type Options struct {
	Version   string // of the binary
	Log       *zap.Logger
	FS        vfs.FS              // nil: that of the operating system
	Listening func(peer net.Addr) // told where members reach it, if not nil
}

// Run runs a witness until the context ends, then answers what has arrived and returns nil; or until it fails, as when
// its disk does, and returns why.
func Run(ctx context.Context, c Config, o Options) (err error) {
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	// Listeners are open before anything else happens, so that a port that is taken changes nothing on disk.
	peer, err := net.Listen("tcp", c.Listen.Peer)
	if err != nil {
		return fmt.Errorf("listen.peer: %w", err)
	}
	defer func() { _ = peer.Close() }() // the server closes it, if there is one
	var probes net.Listener
	if c.Listen.HTTP != "" {
		if probes, err = net.Listen("tcp", c.Listen.HTTP); err != nil {
			return fmt.Errorf("listen.http: %w", err)
		}
		defer func() { _ = probes.Close() }()
	}
	d, err := disk.Identify(disk.Options{
		FS: o.FS, Directory: c.Directory, Memory: c.Durability == Memory,
		Identity: disk.Identity{Cluster: c.Cluster, Witness: c.Self},
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	start := uint64(0)
	if !d.New() {
		start = max(rand.Uint64(), 1)
	}
	w, err := core.New(core.Config{
		Slots: c.Slots, Lives: c.Lives, Memory: c.MemoryBytes, Disk: d.Name(), Start: start,
		Volatile: c.Durability == Memory,
	})
	if err != nil {
		return err
	}
	if err := d.Load(w); err != nil {
		return err
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	lives := len(w.Lives()) // the core is the server's from now on
	s := server.New(server.Options{Cluster: c.Cluster, Self: c.Self, Log: o.Log, Registerer: registry}, w, d)
	o.Log.Info("Witness started", zap.Uint32("witness", c.Self), zap.String("disk", d.Name()),
		zap.Int("instances", lives),
		zap.Stringer("peer", peer.Addr()), zap.Any("listen", c.Listen), zap.String("durability", string(c.Durability)),
		zap.String("version", o.Version))
	if why := d.Damage(); d.New() && why != "" {
		o.Log.Error("This witness's disk was damaged, and counts as lost: what is left is in the directory damaged "+
			"beside the empty one",
			zap.String("reason", why), zap.String("directory", c.Directory))
	}
	if d.New() {
		o.Log.Warn(
			"This witness's disk is empty: it serves no master until the manager begins lives on it, by its name",
			zap.String("disk", d.Name()))
	}
	if o.Listening != nil {
		o.Listening(peer.Addr())
	}
	return serve(ctx, s, peer, probes, promhttp.HandlerFor(registry, promhttp.HandlerOpts{}), o.Log)
}

// serve runs the listeners until the context ends, or the witness or a listener fails.
func serve(
	ctx context.Context, s *server.Server, peer, probes net.Listener, metrics http.Handler, log *zap.Logger,
) error {
	group, running := errgroup.WithContext(ctx)
	health := &http.Server{Handler: server.NewHTTP(s, metrics), ReadHeaderTimeout: 10 * time.Second}
	group.Go(func() error { return s.Serve(peer) })
	if probes != nil {
		group.Go(func() error {
			if err := health.Serve(probes); !errors.Is(err, http.ErrServerClosed) {
				return err
			}
			return nil
		})
	}
	group.Go(func() error {
		select {
		case <-running.Done():
		case <-s.Failed():
		}
		limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainWithin)
		defer cancel()
		err := s.Shutdown(limit)
		if err := health.Shutdown(limit); err != nil {
			log.Warn("Probes were cut off", zap.Error(err))
		}
		return err
	})
	err := group.Wait()
	if err != nil {
		log.Error("Witness failed", zap.Error(err))
	} else {
		log.Info("Witness stopped")
	}
	return err
}
