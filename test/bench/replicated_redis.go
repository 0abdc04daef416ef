package main

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strconv"
)

// startReplicatedRedis starts a Redis server with two replicas that has each change on disk before it answers it
// (Sync), or never (Memory). Clients have its address alone, and wait until one replica has what they changed: that is
// a quorum, as with three members, but nobody takes over from a server that is lost without losing what is under way.
func startReplicatedRedis(ctx context.Context, f flags, durability string) (*cluster, error) {
	return startCluster(f, "redis", func(c *cluster) error { return c.startRedisServers(ctx, f, durability) })
}

func (c *cluster) startRedisServers(ctx context.Context, f flags, durability string) error {
	addresses, err := freePorts(members)
	if err != nil {
		return err
	}
	policy := "always"
	if durability == "Memory" {
		policy = ""
	}
	host, port, err := net.SplitHostPort(addresses[0])
	if err != nil {
		return err
	}
	for i, address := range addresses {
		name := "m" + strconv.Itoa(i)
		dir := filepath.Join(c.dir, name)
		if err := os.Mkdir(dir, 0o700); err != nil {
			return err
		}
		var of []string
		if i > 0 {
			of = []string{"--replicaof", host, port}
		}
		if err := c.spawnRedis(name, f.redis, address, dir, policy, of...); err != nil {
			return err
		}
	}
	c.addresses["WAIT"], c.addresses["redis"] = addresses[:1], addresses
	return c.answers(ctx, "redis-server", "redis")
}

// spawnRedis starts a Redis server whose appends are synced by a policy; empty: it writes no file.
func (c *cluster) spawnRedis(name, program, address, dir, policy string, more ...string) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	args := []string{"--bind", host, "--port", port, "--dir", dir, "--save", "", "--appendonly", "no"}
	if policy != "" {
		args = append(args[:len(args)-1], "yes", "--appendfsync", policy)
	}
	return c.spawn(name, program, append(args, more...)...)
}
