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
	c, err := newCluster(f, "redis")
	if err != nil {
		return nil, err
	}
	if err := c.startRedisServers(ctx, f, durability); err != nil {
		c.stop()
		return nil, err
	}
	return c, nil
}

func (c *cluster) startRedisServers(ctx context.Context, f flags, durability string) error {
	addresses, err := freePorts(members)
	if err != nil {
		return err
	}
	files := []string{"--appendonly", "yes", "--appendfsync", "always"}
	if durability == "Memory" {
		files = []string{"--appendonly", "no"}
	}
	for i, address := range addresses {
		_, port, err := net.SplitHostPort(address)
		if err != nil {
			return err
		}
		name := "m" + strconv.Itoa(i)
		dir := filepath.Join(c.dir, name)
		if err := os.Mkdir(dir, 0o700); err != nil {
			return err
		}
		args := append([]string{"--bind", "127.0.0.1", "--port", port, "--dir", dir, "--save", ""}, files...)
		if i > 0 {
			host, port, err := net.SplitHostPort(addresses[0])
			if err != nil {
				return err
			}
			args = append(args, "--replicaof", host, port)
		}
		if err := c.spawn(name, f.redis, args...); err != nil {
			return err
		}
	}
	c.addresses["WAIT"], c.addresses["redis"] = addresses[:1], addresses
	return c.answers(ctx, "redis-server", "redis")
}
