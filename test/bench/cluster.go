package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// members is the size of both clusters.
const members = 3

// cluster is a running store.
type cluster struct {
	processes []*exec.Cmd
	// environment is what the processes started from now on have beside this one's.
	environment []string
	addresses   map[string][]string // by listener
	dir         string
}

// startCluster makes a cluster, and has begin start its processes. Nothing is left of it if that fails.
func startCluster(f flags, name string, begin func(*cluster) error) (*cluster, error) {
	c, err := newCluster(f, name)
	if err != nil {
		return nil, err
	}
	if err := begin(c); err != nil {
		c.stop()
		return nil, err
	}
	return c, nil
}

func newCluster(f flags, name string) (*cluster, error) {
	dir, err := os.MkdirTemp(f.dir, "bench-"+name+"-")
	if err != nil {
		return nil, fmt.Errorf("make a directory for the data: %w", err)
	}
	return &cluster{addresses: map[string][]string{}, dir: dir}, nil
}

// spawn starts one member, whose output goes to a file.
func (c *cluster) spawn(name, program string, args ...string) error {
	log, err := os.Create(filepath.Join(c.dir, name+".log"))
	if err != nil {
		return fmt.Errorf("make a log: %w", err)
	}
	defer func() { _ = log.Close() }() // the child has its own descriptor
	process := exec.Command(program, args...)
	process.Env = append(os.Environ(), c.environment...)
	process.Stdout, process.Stderr = log, log
	if err := process.Start(); err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	c.processes = append(c.processes, process)
	return nil
}

func (c *cluster) pids() []int {
	var pids []int
	for _, p := range c.processes {
		pids = append(pids, p.Process.Pid)
	}
	return pids
}

// stop ends the members and deletes their data.
func (c *cluster) stop() {
	for _, p := range c.processes {
		_ = p.Process.Signal(syscall.SIGTERM) // it may have ended already
	}
	for _, p := range c.processes {
		force := time.AfterFunc(10*time.Second, func() { _ = p.Process.Kill() })
		_ = p.Wait() // its status says only that it was told to end
		force.Stop()
	}
	_ = os.RemoveAll(c.dir)
}

// ready waits until try succeeds.
func ready(ctx context.Context, what string, try func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	pause := time.NewTicker(100 * time.Millisecond)
	defer pause.Stop()
	for {
		err := try(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("%s does not answer: %w", what, ctx.Err()), err)
		case <-pause.C:
		}
	}
}

// freePorts finds ports of the loopback interface that nobody listens on at the moment.
func freePorts(n int) ([]string, error) {
	var addresses []string
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("find a free port: %w", err)
		}
		defer func() { _ = l.Close() }() // held until all are found, so that they differ
		addresses = append(addresses, l.Addr().String())
	}
	return addresses, nil
}
