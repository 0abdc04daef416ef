package main

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"
)

// machineBounds are what the machine does without a store, in MiB a second.
type machineBounds struct{ disk, loopback float64 }

const (
	// boundChunk is a page of a transfer: each is written and made durable before the next.
	boundChunk = 256 << 10
	boundTotal = 256 << 20
)

// diskBound writes a file in sequence, and makes every chunk durable as a store does.
func diskBound(dir string) (_ float64, err error) {
	path := filepath.Join(dir, "bound")
	f, err := os.Create(path)
	if err != nil {
		return 0, fmt.Errorf("measure the disk: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(path)) }()
	chunk := make([]byte, boundChunk)
	draw := rand.New(rand.NewPCG(5, 0))
	for i := range chunk {
		chunk[i] = byte(draw.Uint32())
	}
	begun := time.Now()
	for range boundTotal / boundChunk {
		if _, err := f.Write(chunk); err != nil {
			return 0, fmt.Errorf("measure the disk: %w", err)
		}
		if err := f.Sync(); err != nil {
			return 0, fmt.Errorf("measure the disk: %w", err)
		}
	}
	return mib(boundTotal) / time.Since(begun).Seconds(), nil
}

// loopbackBound sends over a connection on the loopback interface.
func loopbackBound() (rate float64, err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("measure the loopback interface: %w", err)
	}
	defer func() { err = errors.Join(err, listener.Close()) }()
	var group errgroup.Group
	group.Go(func() error {
		conn, err := listener.Accept()
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, io.LimitReader(struct{ io.Reader }{conn}, boundTotal))
		return errors.Join(err, conn.Close())
	})
	begun := time.Now()
	conn, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		return 0, fmt.Errorf("measure the loopback interface: %w", err)
	}
	for range boundTotal / boundChunk {
		if _, err := conn.Write(make([]byte, boundChunk)); err != nil {
			return 0, errors.Join(fmt.Errorf("measure the loopback interface: %w", err), conn.Close())
		}
	}
	if err := errors.Join(group.Wait(), conn.Close()); err != nil {
		return 0, fmt.Errorf("measure the loopback interface: %w", err)
	}
	return mib(boundTotal) / time.Since(begun).Seconds(), nil
}
