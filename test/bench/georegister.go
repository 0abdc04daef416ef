package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/georegister/georegister/replica/capability"
	"github.com/georegister/georegister/replica/node"
	"github.com/georegister/georegister/replica/proof"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/storage"
	"github.com/georegister/georegister/replica/view"
)

// startGeoregister starts three replicas without delays between them.
func startGeoregister(ctx context.Context, f flags, durability string) (*cluster, error) {
	mode, err := storage.ParseDurability(durability)
	if err != nil {
		return nil, err
	}
	return startCluster(f, "georegister", func(c *cluster) error { return c.startReplicas(ctx, f, mode) })
}

func (c *cluster) startReplicas(ctx context.Context, f flags, durability storage.Durability) error {
	configs, err := c.configure(f, durability)
	if err != nil {
		return err
	}
	if f.limit > 0 { // a member would find these in a container
		c.environment = append(c.environment, fmt.Sprintf("GOMEMLIMIT=%d", f.limit/4*3))
	}
	for i, config := range configs {
		name := config.Members[i].Site
		file := filepath.Join(c.dir, name+".json")
		text, err := json.Marshal(config)
		if err != nil {
			return fmt.Errorf("encode the configuration of %s: %w", name, err)
		}
		if err := os.WriteFile(file, text, 0o600); err != nil {
			return fmt.Errorf("write the configuration of %s: %w", name, err)
		}
		if err := c.spawn(name, f.binary, "replica", "--config", file); err != nil {
			return err
		}
	}
	return c.answers(ctx, "replica", "redis")
}

// configure says how the replicas start, and notes their addresses.
func (c *cluster) configure(f flags, durability storage.Durability) ([]node.Config, error) {
	ports, err := freePorts(3 * members)
	if err != nil {
		return nil, err
	}
	peers, grpc, redis := ports[:members], ports[members:2*members], ports[2*members:]
	c.addresses["grpc"], c.addresses["stream"], c.addresses["redis"] = grpc, grpc, redis
	limits := register.DefaultLimits()
	config := node.Config{
		Cluster: "bench", Epoch: 1, Protocol: f.protocol, Shards: f.shards, Bootstrap: true, Durability: durability,
		Limits: node.Limits{KeyBytes: limits.KeyBytes, ValueBytes: limits.ValueBytes},
	}
	for i, peer := range peers {
		config.Members = append(config.Members, node.Member{
			ID: view.MemberID(i + 1), Site: fmt.Sprintf("s%d", i+1), Address: peer,
		})
	}
	if row, err := capability.Find(f.protocol); err == nil && row.Regular() {
		config.TokenKeys = filepath.Join(c.dir, "token-keys")
		if err := proof.Make(config.TokenKeys); err != nil {
			return nil, err
		}
	}
	var configs []node.Config
	for i, m := range config.Members {
		config.Self = m.ID
		config.Directory, config.Cache = filepath.Join(c.dir, m.Site), node.Bytes(f.limit/4)
		config.Listen = node.Listen{Peer: peers[i], GRPC: grpc[i], Redis: redis[i]}
		configs = append(configs, config)
	}
	return configs, nil
}
