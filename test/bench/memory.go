package main

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	stdruntime "runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"time"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/replica/capability"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/runtime"
	"github.com/georegister/georegister/replica/storage"
	"github.com/georegister/georegister/replica/view"
)

// sizing are the flags of `bench memory`.
type sizing struct {
	dir, protocols, durabilities string
	keys, valueBytes             int
	shards, outstanding          int
	profile                      string
}

// keyBytes is how long the keys are.
const keyBytes = 16

// measureMemory fills clusters of three replicas and prints what a key takes of memory and disk.
func measureMemory(ctx context.Context, args []string) error {
	var f sizing
	set := flag.NewFlagSet("memory", flag.ContinueOnError)
	set.StringVar(&f.dir, "dir", os.TempDir(), "where the replicas keep their data")
	set.StringVar(&f.protocols, "protocols",
		strings.Join(slices.DeleteFunc(writable(), func(name string) bool { return name == "CURP" }), ","),
		"the protocols, comma separated; not CURP, whose replicas are not alike")
	set.StringVar(&f.durabilities, "durability", "Memory,Sync", "of the replicas, comma separated")
	set.IntVar(&f.keys, "keys", 1_000_000, "how many keys there are")
	set.IntVar(&f.valueBytes, "value-bytes", 16, "how long values are")
	set.IntVar(&f.shards, "shards", int(v1alpha1.DefaultShards), "how many shards the replicas have")
	set.IntVar(&f.outstanding, "outstanding", 1024, "how many sessions there are, each with one operation under way")
	set.StringVar(&f.profile, "profile", "", "a directory for a profile of each row's heap; none if empty")
	if err := set.Parse(args); err != nil {
		return err
	}
	fmt.Printf("# What a key takes, of %d keys of %d bytes with values of %d bytes: %s\n\n", f.keys, keyBytes,
		f.valueBytes, machine())
	fmt.Println("Bytes per key and replica of three. Memory is the live heap after a collection, without that of the " +
		"empty cluster; disk is the tables")
	fmt.Println("after a compaction. \"Over\" is without the value. An rmw has an ID, of one of many sessions; a " +
		"write has none.")
	fmt.Println("\n| protocol | durability | filled by | memory | over | disk | over |")
	fmt.Println("|---|---|---|---:|---:|---:|---:|")
	for _, protocol := range split(f.protocols) {
		can, err := capability.Find(protocol)
		if err != nil {
			return err
		}
		for _, durability := range split(f.durabilities) {
			for _, kind := range []register.Kind{register.Write, register.RMW} {
				if can.CheckOperation(kind) != nil {
					continue
				}
				if err := f.measure(ctx, can.Name, durability, kind); err != nil {
					return fmt.Errorf("%s, %s, filled by %ss: %w", protocol, durability, kind, err)
				}
			}
		}
	}
	return nil
}

// measure prints one row.
func (f sizing) measure(ctx context.Context, protocol, durability string, kind register.Kind) (err error) {
	mode, err := storage.ParseDurability(durability)
	if err != nil {
		return err
	}
	data, err := os.MkdirTemp(f.dir, "bench-memory-")
	if err != nil {
		return fmt.Errorf("make a directory for the data: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(data)) }()
	replicas, err := f.open(ctx, data, protocol, mode)
	closed := false
	defer func() {
		if !closed {
			err = errors.Join(err, closeAll(replicas))
		}
	}()
	if err != nil {
		return err
	}
	empty := liveHeap()
	begun := time.Now()
	if err := f.fill(ctx, replicas, protocol, kind); err != nil {
		return err
	}
	took := time.Since(begun).Round(time.Second)
	full, err := restingHeap(ctx)
	if err != nil {
		return err
	}
	if err := f.writeProfile(fmt.Sprintf("%s-%s-%s.heap", protocol, durability, kind)); err != nil {
		return err
	}
	each := float64(f.keys * len(replicas))
	memory, disk := float64(full-empty)/each, "- | -"
	closed = true
	if err := closeAll(replicas); err != nil {
		return err
	}
	if mode != storage.Memory {
		size, err := compacted(ctx, data)
		if err != nil {
			return err
		}
		disk = fmt.Sprintf("%.0f | %.0f", float64(size)/each, float64(size)/each-float64(f.valueBytes))
	}
	over := "-" // the values are on disk
	if mode == storage.Memory {
		over = fmt.Sprintf("%.0f", memory-float64(f.valueBytes))
	}
	fmt.Fprintf(os.Stderr, "%s, %s, %s: filled in %s\n", protocol, durability, kind, took)
	fmt.Printf("| %s | %s | %s | %.0f | %s | %s |\n", protocol, durability, kind, memory, over, disk)
	return nil
}

// writeProfile keeps what allocated the heap as it is now.
func (f sizing) writeProfile(name string) (err error) {
	if f.profile == "" {
		return nil
	}
	file, err := os.Create(filepath.Join(f.profile, name))
	if err != nil {
		return fmt.Errorf("-profile: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return pprof.Lookup("heap").WriteTo(file, 0)
}

// open starts the replicas in this process, and waits until each can serve.
func (f sizing) open(
	ctx context.Context, data, protocol string, durability storage.Durability,
) (replicas []replica, err error) {
	v := view.View{Cluster: identity, Epoch: 1}
	listeners := make([]net.Listener, members)
	for i := range listeners {
		if listeners[i], err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			return nil, fmt.Errorf("find a free port: %w", err)
		}
		v.Members = append(v.Members,
			view.Member{ID: view.MemberID(i + 1), Site: fmt.Sprintf("s%d", i+1), Address: listeners[i].Addr().String()})
	}
	for i, m := range v.Members {
		store, err := storage.Open(storage.Options{
			Directory: filepath.Join(data, m.Site), Durability: durability,
			Identity: storage.Identity{Cluster: v.Cluster, Member: m.ID, Protocol: protocol, Shards: f.shards},
		})
		if err != nil {
			return replicas, err
		}
		r, err := runtime.Start(ctx, runtime.Options{
			View: v, Self: m.ID, Protocol: protocol, Shards: f.shards, Store: store, Listener: listeners[i],
			Bootstrap: true, Seed: uint64(i),
		})
		if err != nil {
			return replicas, errors.Join(err, store.Close())
		}
		replicas = append(replicas, replica{r, store})
	}
	return replicas, ready(ctx, "the cluster", func(context.Context) error {
		for _, r := range replicas {
			if !r.Quorum() {
				return errors.New("a replica has no quorum yet")
			}
		}
		return nil
	})
}

// replica is one with its disk.
type replica struct {
	*runtime.Replica
	store *storage.Store
}

func closeAll(replicas []replica) error {
	var errs []error
	for _, r := range replicas {
		errs = append(errs, r.Close(), r.store.Close())
	}
	return errors.Join(errs...)
}

// fillWithin bounds how long an operation may take: the machine may be slow, but none is to be lost.
const fillWithin = 5 * time.Minute

// fill gives each key a value by one operation, and has every replica hold every key, as it does in the long run: a
// write that only goes to a quorum is brought to the others by their reads.
func (f sizing) fill(ctx context.Context, replicas []replica, protocol string, kind register.Kind) error {
	if err := f.run(ctx, "filled", func(i, session int, number uint64, done func(register.Result)) {
		replicas[session%len(replicas)].Submit(f.operation(i, session, number, kind), fillWithin, done)
	}); err != nil {
		return err
	}
	if kind == register.RMW || protocol == "EPaxos" {
		return nil // every replica executes every command, and a read would be one of its own
	}
	for at, r := range replicas {
		if err := f.run(ctx, fmt.Sprintf("read at replica %d", at+1),
			func(i, _ int, _ uint64, done func(register.Result)) {
				r.Submit(register.Operation{Kind: register.Read, Key: keyOf(i)}, fillWithin, done)
			}); err != nil {
			return err
		}
	}
	return nil
}

// run submits one operation for each key, by sessions that have one under way each; what names it in the progress.
func (f sizing) run(
	ctx context.Context, what string, submit func(i, session int, number uint64, done func(register.Result)),
) error {
	type ended struct {
		session int
		result  register.Result
	}
	done := make(chan ended, f.outstanding)
	numbers := make([]uint64, f.outstanding)
	for session := range f.outstanding {
		done <- ended{session, register.Result{Status: register.OK}}
	}
	begun := time.Now()
	for i := range f.keys + f.outstanding {
		if i > 0 && i%max(1, f.keys/10) == 0 {
			fmt.Fprintf(os.Stderr, "%s %d of %d keys after %s\n", what, min(i, f.keys), f.keys,
				time.Since(begun).Round(time.Second))
		}
		var e ended
		select {
		case <-ctx.Done():
			return ctx.Err()
		case e = <-done:
		}
		if e.result.Status != register.OK {
			return fmt.Errorf("an operation is answered %s: %s", e.result.Status, e.result.Message)
		}
		if i >= f.keys {
			continue // the last ones end
		}
		numbers[e.session]++
		submit(i, e.session, numbers[e.session], func(r register.Result) { done <- ended{e.session, r} })
	}
	return nil
}

// keyOf is key i. Keys and values look random, so that they don't get smaller on disk.
func keyOf(i int) string { return fmt.Sprintf("%0*x", keyBytes, scatter(uint64(i))) }

// operation gives key i its value.
func (f sizing) operation(i, session int, number uint64, kind register.Kind) register.Operation {
	value := make(register.Value, 0, f.valueBytes+8)
	for n := uint64(0); len(value) < f.valueBytes; n++ {
		value = binary.LittleEndian.AppendUint64(value, scatter(uint64(i)<<20+n))
	}
	value = value[:f.valueBytes:f.valueBytes]
	op := register.Operation{Kind: kind, Key: keyOf(i)}
	if kind == register.Write {
		op.Value = value
		return op
	}
	op.Call = register.Call{Function: register.Append, Args: [][]byte{value}}
	op.ID = register.ID{
		Session: scatter(uint64(session)) | 1, Number: number, FirstIncomplete: number,
		IssuedAt: time.Now().UnixMilli(),
	}
	return op
}

// scatter maps numbers to numbers that look random, no two to the same (the last steps of splitmix64).
func scatter(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// liveHeap is the bytes of the heap that are in use.
func liveHeap() uint64 {
	stdruntime.GC()
	stdruntime.GC() // what the first one found in pools and behind finalizers
	var m stdruntime.MemStats
	stdruntime.ReadMemStats(&m)
	return m.HeapAlloc
}

// restingHeap is the live heap once it does not shrink any more: members tell each other what is over, and write tables
// out, after the last answer.
func restingHeap(ctx context.Context) (uint64, error) {
	const calm = 3 // measurements, a second apart
	least, same := liveHeap(), 0
	for range 120 {
		if err := pause(ctx, time.Second); err != nil {
			return 0, err
		}
		now := liveHeap()
		if now < least-least/200 {
			least, same = now, 0
			continue
		}
		if least, same = min(least, now), same+1; same == calm {
			break
		}
	}
	return least, nil
}
