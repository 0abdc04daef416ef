package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	adminv1 "github.com/georegister/georegister/api/admin/v1"
	"github.com/georegister/georegister/replica/node"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/runtime"
	"github.com/georegister/georegister/replica/storage"
	"github.com/georegister/georegister/replica/view"
	"github.com/georegister/georegister/replica/view/wire"
	"github.com/georegister/georegister/witness"
	"github.com/georegister/georegister/witness/manage"
)

// Who is who in a tier. The client's member has no part in any partition, as a client of the paper.
const (
	clientMember view.MemberID = 1
	masterMember view.MemberID = 2
	firstBackup  view.MemberID = 3
	firstWitness view.MemberID = 11
)

// mode is one way to keep a partition.
type mode struct {
	name               string
	backups, witnesses int
}

// tier is a client's member, a master, backups and witnesses, as processes of their own, and a partition for each mode:
// all modes run on the same processes, so that they can be compared in turn.
type tier struct {
	*cluster
	modes  []mode
	admins map[view.MemberID]string
	redis  string // of the client's member
	// masterRedis is the master's own: of a client on the same machine.
	masterRedis string
	servers     map[view.MemberID]int
}

// identity is the tiers' cluster.
const identity = "bench"

// startTier starts the processes, has the manager's part done, and waits until the master serves all partitions. A link
// is a round trip between any two processes; 0: no delay.
func startTier(ctx context.Context, f mastering, modes []mode, link time.Duration, tuned node.CURP) (*tier, error) {
	c, err := newCluster(flags{dir: f.dir}, "masters")
	if err != nil {
		return nil, err
	}
	t := &tier{cluster: c, modes: modes, admins: map[view.MemberID]string{}, servers: map[view.MemberID]int{}}
	if err := t.start(ctx, f, link, tuned); err != nil {
		t.stop()
		return nil, err
	}
	return t, nil
}

func (t *tier) start(ctx context.Context, f mastering, link time.Duration, tuned node.CURP) error {
	backups, witnesses := 0, 0
	for _, m := range t.modes {
		backups, witnesses = max(backups, m.backups), max(witnesses, m.witnesses)
	}
	members := int(firstBackup) + backups - 1
	ports, err := freePorts(3*members + witnesses)
	if err != nil {
		return err
	}
	v := view.View{Cluster: identity, Epoch: 1, Since: 1}
	for i := range witnesses {
		v.Witnesses = append(v.Witnesses, view.Witness{
			ID: firstWitness + view.MemberID(i), Site: fmt.Sprintf("w%d", i+1), Address: ports[3*members+i],
		})
	}
	for i := range members {
		id := view.MemberID(i + 1)
		v.Members = append(v.Members, view.Member{ID: id, Site: fmt.Sprintf("s%d", id), Address: ports[3*i]})
		t.admins[id] = ports[3*i+1]
	}
	t.redis, t.masterRedis = ports[2], ports[3+2]
	for i, m := range t.modes {
		p := view.Partition{Term: 1, Master: masterMember}
		for b := range m.backups {
			p.Backups = append(p.Backups, firstBackup+view.MemberID(b))
		}
		for w := range m.witnesses {
			p.Witnesses = append(p.Witnesses, firstWitness+view.MemberID((i+w)%witnesses))
		}
		v.Partitions = append(v.Partitions, p)
	}
	if err := t.spawnAll(f, v, ports, link, tuned); err != nil {
		return err
	}
	return t.found(ctx, v)
}

// spawnAll starts members that wait for a view, and witnesses.
func (t *tier) spawnAll(f mastering, v view.View, ports []string, link time.Duration, tuned node.CURP) error {
	limits := register.DefaultLimits()
	for i, m := range v.Members {
		config := node.Config{
			Cluster: identity, Protocol: "CURP", Shards: len(t.modes), Self: m.ID, Site: m.Site,
			Directory:  filepath.Join(t.dir, m.Site),
			Durability: storage.Sync, Limits: node.Limits{KeyBytes: limits.KeyBytes, ValueBytes: limits.ValueBytes},
			Listen: node.Listen{Peer: ports[3*i], Admin: ports[3*i+1], Redis: ports[3*i+2]}, CURP: tuned,
		}
		for _, other := range v.Members {
			config.Distances = appendLink(config.Distances, m.Site, other.Site, link)
		}
		for _, w := range v.Witnesses {
			config.Distances = appendLink(config.Distances, m.Site, w.Site, link)
		}
		if err := t.launch(m.ID, m.Site, f.binary, "replica", config); err != nil {
			return err
		}
	}
	for _, w := range v.Witnesses {
		config := witness.Config{
			Cluster: identity, Self: uint32(w.ID), Directory: filepath.Join(t.dir, w.Site),
			Durability: cmp.Or(f.witnesses, witness.Sync), Listen: witness.Listen{Peer: w.Address},
		}
		if err := t.launch(w.ID, w.Site, f.binary, "witness", config); err != nil {
			return err
		}
	}
	return nil
}

func appendLink(all []node.Distance, here, there string, link time.Duration) []node.Distance {
	if here == there || link == 0 {
		return all
	}
	return append(all, node.Distance{Site: there, Delay: node.Duration(link / 2)})
}

// launch starts a process on a configuration.
func (t *tier) launch(id view.MemberID, name, binary, command string, config any) error {
	text, err := json.Marshal(config)
	if err != nil {
		return fmt.Errorf("encode the configuration of %s: %w", name, err)
	}
	file := filepath.Join(t.dir, name+".json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return fmt.Errorf("write the configuration of %s: %w", name, err)
	}
	if err := t.spawn(name, binary, command, "--config", file); err != nil {
		return err
	}
	t.servers[id] = t.processes[len(t.processes)-1].Process.Pid
	return nil
}

// found is the manager's part: the first view names everybody's disk, members are told it, and witnesses begin their
// lives.
func (t *tier) found(ctx context.Context, v view.View) error {
	admins := map[view.MemberID]adminv1.AdminClient{}
	for i, m := range v.Members {
		connection, err := grpc.NewClient(t.admins[m.ID], grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			return fmt.Errorf("member %d: %w", m.ID, err)
		}
		defer func() { _ = connection.Close() }() // everything was answered
		admins[m.ID] = adminv1.NewAdminClient(connection)
		if err := ready(ctx, m.Site, func(ctx context.Context) error {
			status, err := admins[m.ID].Status(ctx, &adminv1.StatusRequest{Cluster: identity, Member: uint32(m.ID)})
			v.Members[i].Disk = status.GetDisk()
			return err
		}); err != nil {
			return err
		}
	}
	lives := map[view.MemberID]*manage.Conn{}
	for i, w := range v.Witnesses {
		lives[w.ID] = manage.Dial(identity, w.ID, w.Address)
		defer func() { _ = lives[w.ID].Close() }() // everything was answered
		if err := ready(ctx, w.Site, func(ctx context.Context) error {
			report, err := lives[w.ID].Report(ctx)
			v.Witnesses[i].Disk = report.Disk
			return err
		}); err != nil {
			return err
		}
	}
	for i, p := range v.Partitions {
		for _, id := range p.Witnesses {
			w, _ := v.Witness(id)
			if err := lives[id].Start(ctx, i, p.Term, w.Disk); err != nil {
				return err
			}
		}
	}
	for _, m := range v.Members {
		request := &adminv1.ConfigureRequest{Cluster: identity, Member: uint32(m.ID), View: wire.ToProto(v)}
		if _, err := admins[m.ID].Configure(ctx, request); err != nil {
			return fmt.Errorf("give member %d its view: %w", m.ID, err)
		}
	}
	return ready(ctx, "the master", func(ctx context.Context) error {
		status, err := admins[masterMember].Status(ctx,
			&adminv1.StatusRequest{Cluster: identity, Member: uint32(masterMember)})
		if err != nil {
			return err
		}
		if slices.ContainsFunc(status.Partitions, func(p *adminv1.Part) bool { return !p.Serving }) ||
			len(status.Partitions) < len(t.modes) {
			return errors.New("it does not serve every partition yet")
		}
		return nil
	})
}

// keys are as many as asked for of the partition of a mode, other ones for each first number.
func (t *tier) keys(mode, first, count int) (keys []string) {
	for i := first; len(keys) < count; i++ {
		if key := fmt.Sprintf("key/%024d", i); runtime.Shard(key, len(t.modes)) == mode {
			keys = append(keys, key)
		}
	}
	return keys
}
