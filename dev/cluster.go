// Package dev is the embedded default: every member of a manifest as a child process on this machine, with
// the manifest's wide-area network emulated, and the faults that a user asks for.
package dev

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"

	adminv1 "github.com/georegister/georegister/api/admin/v1"
	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/replica/node"
	"github.com/georegister/georegister/replica/profile"
	"github.com/georegister/georegister/replica/proof"
	"github.com/georegister/georegister/replica/storage"
	"github.com/georegister/georegister/replica/view"
)

const (
	configFile = "config.json"
	// stopWithin bounds the orderly end of a member; then it is killed.
	stopWithin = 10 * time.Second
	// adminTimeout bounds the wait for a member's status.
	adminTimeout = 2 * time.Second
	// silentTimeout bounds it for one that did not answer the last time, so that a process that hangs holds up nobody.
	silentTimeout = adminTimeout / 8
	// linkTimeout bounds telling a member about a link; it may be starting.
	linkTimeout = 10 * time.Second
	// pollEvery is the pause between two looks at a condition.
	pollEvery = 50 * time.Millisecond
)

// Options say what to run.
type Options struct {
	Manifest *v1alpha1.GeoRegisterCluster // valid
	// Data keeps the cluster between runs; empty: a temporary directory, removed at the end.
	Data string
	// Binary is the georegister that members run as.
	Binary string
	// RedisBasePort is the first member's Redis port, the others follow; 0: free ports.
	RedisBasePort int
	// Report is called with each line on how a change of members is going; nil: nobody wants to know.
	Report func(string)
}

// Cluster is a running cluster.
type Cluster struct {
	options   Options
	directory *directory

	mu       sync.Mutex // one command at a time; it guards the record too
	cut      map[link]bool
	progress *progress // of the latest change of members; nil: there was none
	waiting  string    // for what the partitions wait; empty: for nothing
	adopted  time.Time // when the view was recorded, in this run

	membersMu sync.Mutex
	members   []*member  // by ID
	alone     []*sidecar // dedicated witnesses, by ID

	settle     time.Duration // how long members take to hear each other in a new view
	woken      chan struct{} // has the driver look again at once
	stop       func()        // ends the driver
	background sync.WaitGroup
}

// member is one member of a cluster, running or not.
type member struct {
	slot
	record     memberRecord
	connection *grpc.ClientConn
	admin      adminv1.AdminClient
	telling    atomic.Bool // it is being told a view
	silent     atomic.Bool // it did not answer when it was asked last
	witness    *sidecar    // nil: the protocol has none
}

// link is an unordered pair of members.
type link struct{ low, high view.MemberID }

func between(a, b view.MemberID) link { return link{min(a, b), max(a, b)} }

// Start starts every member. Close must be called.
func Start(o Options) (*Cluster, error) {
	d, err := openDirectory(o.Data, o.Manifest)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	c := &Cluster{options: o, directory: d, cut: map[link]bool{}, woken: make(chan struct{}, 1), stop: stop}
	c.settle = settling(o.Manifest.Spec)
	if err := c.start(); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	c.background.Go(func() { c.drive(ctx) })
	return c, nil
}

func (c *Cluster) start() error {
	r := &c.directory.record
	if err := assign(r.Members, c.options.RedisBasePort, r.View.Epoch > 0); err != nil {
		return err
	}
	if err := assignWitnesses(r.Witnesses, portsOf(r.Members), r.View.Epoch > 0); err != nil {
		return err
	}
	if err := c.directory.save(); err != nil {
		return err
	}
	if c.options.Manifest.Spec.Regular() {
		if err := proof.Make(c.directory.tokenKeys()); err != nil {
			return err
		}
	}
	if r.Change != nil {
		c.progress = newProgress(func(line string) { c.say("%s", line) })
		c.progress.line("going on with the change: %s", r.Change.describe(r))
	}
	if count := len(r.View.Partitions); r.partitioned() && count > 0 && count < r.wanted() {
		c.say("%d partitions become %d, one split after the other", count, r.wanted())
	}
	for _, w := range r.Witnesses {
		if err := c.openWitness(w); err != nil {
			return err
		}
	}
	for _, m := range r.Members {
		if err := c.open(m); err != nil {
			return err
		}
	}
	return nil
}

// open makes a member of a record, and starts it.
func (c *Cluster) open(r memberRecord) error {
	connection, err := grpc.NewClient(loopback(r.Ports.Admin), dialOptions()...)
	if err != nil {
		return fmt.Errorf("site %s: connect to its admin port: %w", r.Label, err)
	}
	m := &member{record: r, connection: connection, admin: adminv1.NewAdminClient(connection)}
	if r.Witness != 0 {
		m.witness = newSidecar(c.directory.record.Cluster, r)
	}
	for _, u := range m.units() {
		if err := c.run(u); err != nil {
			for _, started := range m.units() {
				if p := started.current(); p != nil {
					p.kill()
				}
			}
			return errors.Join(err, m.disconnect())
		}
	}
	c.membersMu.Lock()
	defer c.membersMu.Unlock()
	c.members = append(c.members, m)
	return nil
}

// all are the members, by ID.
func (c *Cluster) all() []*member {
	c.membersMu.Lock()
	defer c.membersMu.Unlock()
	return slices.Clone(c.members)
}

// say tells whoever watches a line.
func (c *Cluster) say(format string, args ...any) {
	if c.options.Report != nil {
		c.options.Report(fmt.Sprintf(format, args...))
	}
}

// config is what a member is started with now. Who the others are, it is told once it runs.
func (c *Cluster) config(m *member) node.Config {
	spec := c.options.Manifest.Spec
	limits, rate := spec.Limits.Register(), node.Bytes(spec.Storage.TransferBytes())
	config := node.Config{
		Cluster: c.directory.record.Cluster, Protocol: spec.Protocol, Shards: c.directory.record.Shards,
		Self: m.record.ID, Site: m.record.Site,
		Directory: c.directory.disk(m.record), Durability: durability(spec.Storage.DurabilityOrDefault()),
		FlushEvery: node.Duration(spec.Storage.SyncInterval()), TransferRate: &rate,
		Limits:         node.Limits{KeyBytes: limits.KeyBytes, ValueBytes: limits.ValueBytes, ClientMemory: node.Bytes(spec.Limits.ClientBytes())},
		FaultTolerance: spec.RelaxedFaults(),
		Listen: node.Listen{
			Peer: loopback(m.record.Ports.Peer), GRPC: loopback(m.record.Ports.GRPC),
			Redis: loopback(m.record.Ports.Redis), Admin: loopback(m.record.Ports.Admin),
			HTTP: loopback(m.record.Ports.HTTP),
		},
		ExitWithInput: true,
	}
	if spec.Regular() {
		config.TokenKeys = c.directory.tokenKeys()
	}
	if e := spec.ErasureCoding(); e != nil {
		config.ErasureCoding = &node.ErasureCoding{DataFragments: int(e.DataFragments), ThresholdBytes: e.Threshold()}
	}
	for _, site := range sites(spec) {
		if way := spec.Way(site, m.record.Site); way.Delay > 0 || way.Jitter > 0 {
			config.Distances = append(config.Distances, node.Distance{
				Site: site, Delay: node.Duration(way.Delay), Jitter: node.Duration(way.Jitter),
			})
		}
	}
	for _, other := range c.directory.record.Members {
		if c.cut[between(m.record.ID, other.ID)] {
			config.Blocked = append(config.Blocked, other.ID)
			if other.Witness != 0 {
				config.Blocked = append(config.Blocked, other.Witness)
			}
		}
	}
	for _, w := range c.directory.record.Witnesses {
		if c.cut[between(m.record.ID, w.ID)] {
			config.Blocked = append(config.Blocked, w.ID)
		}
	}
	return config
}

// sites are those between which the manifest knows the distance, or all that it has: with a profile, members can join
// at the others of the profile too.
func sites(spec v1alpha1.GeoRegisterClusterSpec) (names []string) {
	if spec.WAN != nil && spec.WAN.Profile != "" {
		if p, err := profile.Find(spec.WAN.Profile); err == nil { // it is valid
			for _, site := range p.Sites {
				names = append(names, strings.ToLower(site))
			}
		}
		return names
	}
	for _, site := range spec.Sites {
		names = append(names, site.Name)
	}
	return names
}

func durability(d v1alpha1.Durability) storage.Durability {
	switch d {
	case v1alpha1.Interval:
		return storage.Interval
	case v1alpha1.Memory:
		return storage.Memory
	}
	return storage.Sync
}

// Partition cuts all links between two sites, in both directions.
func (c *Cluster) Partition(a, b string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	left, err := c.find(a)
	if err != nil {
		return err
	}
	right, err := c.find(b)
	if err != nil {
		return err
	}
	var errs []error
	for _, l := range left {
		for _, r := range right {
			if l == r {
				return fmt.Errorf("%s and %s share a member; name two different sites", a, b)
			}
			c.cut[between(l.record.ID, r.record.ID)] = true
			errs = append(errs, c.setLink(l, r, true), c.setLink(r, l, true))
		}
	}
	errs = append(errs, c.cutWitnesses(left, b)...)
	errs = append(errs, c.cutWitnesses(right, a)...)
	return errors.Join(errs...)
}

// Heal mends all links that were cut. Others are left alone: a newcomer without a view knows none.
func (c *Cluster) Heal() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	cut := c.cut
	c.cut = map[link]bool{}
	var errs []error
	for _, m := range c.all() {
		for _, other := range c.all() {
			if cut[between(m.record.ID, other.record.ID)] {
				errs = append(errs, c.setLink(m, other, false))
			}
		}
		for _, w := range c.dedicated() {
			if cut[between(m.record.ID, w.id)] {
				errs = append(errs, c.setWitness(m, w.id, w.name(), false))
			}
		}
	}
	return errors.Join(errs...)
}

// setLink tells a member, if it runs; else it will be told when it starts. A witness is on the side of its member.
func (c *Cluster) setLink(m, peer *member, blocked bool) error {
	if !m.current().running() {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), linkTimeout)
	defer cancel()
	for _, id := range peer.ids() {
		_, err := m.admin.SetLink(ctx, &adminv1.SetLinkRequest{
			Cluster: c.directory.record.Cluster, Member: uint32(m.record.ID), Peer: uint32(id), Blocked: blocked,
		}, grpc.WaitForReady(true))
		if err != nil {
			return fmt.Errorf("%s: set the link to %s: %w", m.record.Label, peer.record.Label, err)
		}
	}
	return nil
}

// find returns the members of a site, or the one of a label.
func (c *Cluster) find(site string) ([]*member, error) {
	var found []*member
	var labels []string
	for _, m := range c.all() {
		labels = append(labels, m.record.Label)
		if m.record.Site == site || m.record.Label == site {
			found = append(found, m)
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("no site %q; there are %s", site, strings.Join(labels, ", "))
	}
	return found, nil
}

// Close stops all members and removes a temporary data directory. It returns what did not go in order.
func (c *Cluster) Close() error {
	c.stop()
	c.background.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	members := c.all()
	errs := make([]error, len(members))
	var group sync.WaitGroup
	for i, m := range members {
		group.Go(func() {
			errs[i] = m.stop()
		})
	}
	var alone []unit
	for _, w := range c.dedicated() {
		alone = append(alone, w)
	}
	stopped := stopAll(alone)
	group.Wait()
	for _, w := range c.dedicated() {
		stopped = errors.Join(stopped, w.manager.Close())
	}
	errs = append(errs, stopped)
	for _, m := range members {
		errs = append(errs, m.disconnect())
	}
	return errors.Join(append(errs, c.directory.close())...)
}

// dialOptions suit members on the same machine that come back within moments.
func dialOptions() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: pollEvery, Multiplier: 1.5, Jitter: 0.2, MaxDelay: 5 * pollEvery},
			MinConnectTimeout: time.Second,
		}),
	}
}
