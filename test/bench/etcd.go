package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/workload/bench"
)

// buildEtcd builds the etcd that test/bench/etcd pins, unless the program exists.
func buildEtcd(ctx context.Context, program string) error {
	if _, err := os.Stat(program); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	target, err := filepath.Abs(program)
	if err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "building etcd, which takes some minutes once")
	build := exec.CommandContext(ctx, "go", "build", "-o", target, "go.etcd.io/etcd/server/v3")
	build.Dir = filepath.Join("test", "bench", "etcd")
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	if err := build.Run(); err != nil {
		return fmt.Errorf("build etcd: %w", err)
	}
	return nil
}

// startEtcd starts three members with etcd's own defaults. Memory stands for no fsync at all.
func startEtcd(ctx context.Context, f flags, durability string) (*cluster, error) {
	return startCluster(f, "etcd", func(c *cluster) error { return c.startEtcdMembers(ctx, f, durability) })
}

func (c *cluster) startEtcdMembers(ctx context.Context, f flags, durability string) error {
	ports, err := freePorts(2 * members)
	if err != nil {
		return err
	}
	clients, peers := ports[:members], ports[members:]
	var seeds []string
	for i, peer := range peers {
		seeds = append(seeds, fmt.Sprintf("m%d=http://%s", i, peer))
	}
	for i := range members {
		name := fmt.Sprintf("m%d", i)
		args := []string{
			"--name", name, "--data-dir", filepath.Join(c.dir, name), "--log-level", "error",
			"--listen-client-urls", "http://" + clients[i], "--advertise-client-urls", "http://" + clients[i],
			"--listen-peer-urls", "http://" + peers[i], "--initial-advertise-peer-urls", "http://" + peers[i],
			"--initial-cluster", strings.Join(seeds, ","), "--initial-cluster-state", "new",
		}
		if durability == "Memory" {
			args = append(args, "--unsafe-no-fsync")
		}
		if err := c.spawn(name, f.etcd, args...); err != nil {
			return err
		}
	}
	c.addresses["etcd"] = clients
	return c.answers(ctx, "etcd", "etcd")
}

// answers waits until every member serves a linearizable read.
func (c *cluster) answers(ctx context.Context, what, name string) error {
	dialer, err := bench.FindDialer(name)
	if err != nil {
		return err
	}
	for _, address := range c.addresses[name] {
		err := ready(ctx, what+" at "+address, func(ctx context.Context) error {
			conn, err := dialer.Dial(ctx, address)
			if err != nil {
				return err
			}
			defer func() { _ = conn.Close() }() // a probe
			return conn.Do(ctx, []register.Operation{{Kind: register.Read, Key: "probe"}})
		})
		if err != nil {
			return err
		}
	}
	return nil
}
