// Command scale measures the operator with many clusters. It starts a kube-apiserver with its etcd, and the operator as
// a process of its own. Nodes, pods and volumes are objects alone: a stand-in brings them up, and answers for every
// member at its admin port, at a loopback address of its own. It prints tables in Markdown.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"go.uber.org/zap/zapcore"
	"k8s.io/apimachinery/pkg/types"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
)

type flags struct {
	binary, root      string
	clusters, singles int
	edits             int
	rest, within      time.Duration
	more              []string
}

func main() {
	var f flags
	flag.StringVar(&f.binary, "binary", "bin/georegister-operator", "the operator to measure")
	flag.StringVar(&f.root, "root", ".", "the project's directory")
	flag.IntVar(&f.clusters, "clusters", 200,
		"clusters that are created at the same time, each of 5 members; at most 500")
	flag.IntVar(&f.singles, "singles", 30, "clusters that are created after that, one after the other; at most 100")
	flag.IntVar(&f.edits, "edits", 0,
		"edits of clusters, one after the other, at the end: before and after the first member of every cluster "+
			"is mute")
	flag.DurationVar(&f.rest, "rest", 2*time.Minute, "how long to watch the operator at rest")
	flag.DurationVar(&f.within, "within", 15*time.Minute, "when to give up")
	flag.Parse()
	f.more = flag.Args() // of the operator, such as -- --max-concurrent=8
	if f.clusters < 1 || f.clusters > 500 || f.singles < 0 || f.singles > 100 || f.rest < time.Second {
		flag.Usage()
		os.Exit(2)
	}
	ctrllog.SetLogger(zap.New(zap.WriteTo(os.Stderr), zap.Level(zapcore.ErrorLevel)))
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	ctx, done := context.WithTimeoutCause(ctx, f.within,
		fmt.Errorf("it took more than %v: -within gives it longer", f.within))
	defer done()
	if err := run(ctx, f); err != nil {
		fmt.Fprintln(os.Stderr, "scale:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, f flags) (err error) {
	directory, err := os.MkdirTemp("", "scale-")
	if err != nil {
		return err
	}
	progress("starting a control plane, its files are in %s", directory)
	w, err := newWorld(ctx, f.root, directory)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.stop()) }()
	kubeconfig := filepath.Join(directory, "kubeconfig")
	if err := w.kubeconfig(kubeconfig); err != nil {
		return err
	}
	o, err := startOperator(f.binary, kubeconfig, directory, f.more)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, o.stop()) }()
	m := &measurement{flags: f, world: w, operator: o}
	for _, part := range []func(context.Context) error{m.empty, m.crowd, m.single, m.rest, w.undisturbed, m.edit} {
		if err := part(ctx); err != nil {
			return fmt.Errorf("%w (the operator's log is in %s)", err, directory)
		}
	}
	m.print(os.Stdout)
	return os.RemoveAll(directory)
}

// measurement is what a run found.
type measurement struct {
	flags
	world    *world
	operator *operator

	before, converged, rested usage // at the start, when all are available, at the end
	crowdTook                 []time.Duration
	all                       time.Duration // until the last of the crowd was available
	crowdAsked                requests
	singleTook                []time.Duration
	settledCPU                time.Duration // at the start of the rest
	atRest                    requests
	// until edits were seen, while all members answered and while some were mute
	editTook, muteTook []time.Duration
}

// empty waits until the operator has nothing to do, and notes what it uses.
func (m *measurement) empty(ctx context.Context) (err error) {
	if err := m.quiet(ctx, 5*time.Second); err != nil {
		return err
	}
	m.before, err = m.operator.usage()
	return err
}

// crowd creates clusters as fast as the apiserver takes them, and waits until all are available.
func (m *measurement) crowd(ctx context.Context) error {
	before, err := asked(m.world.auditLog)
	if err != nil {
		return err
	}
	started := time.Now()
	keys, err := m.create(ctx, 0, m.clusters)
	if err != nil {
		return err
	}
	progress("created %d clusters in %.1f s", m.clusters, time.Since(started).Seconds())
	if err := m.await(ctx, keys); err != nil {
		return err
	}
	m.all, m.crowdTook = time.Since(started), m.world.took(keys)
	if m.converged, err = m.operator.usage(); err != nil {
		return err
	}
	now, err := asked(m.world.auditLog)
	m.crowdAsked = now.since(before)
	return err
}

// single creates clusters one after the other beside those that are at rest.
func (m *measurement) single(ctx context.Context) error {
	if err := m.quiet(ctx, settle); err != nil {
		return err
	}
	for n := range m.singles {
		keys, err := m.create(ctx, m.clusters+n, m.clusters+n+1)
		if err != nil {
			return err
		}
		if err := m.await(ctx, keys); err != nil {
			return err
		}
		m.singleTook = append(m.singleTook, m.world.took(keys)...)
	}
	return nil
}

// rest looks at what the operator does when there is nothing to do.
func (m *measurement) rest(ctx context.Context) error {
	if err := m.quiet(ctx, settle); err != nil {
		return err
	}
	before, err := asked(m.world.auditLog)
	if err != nil {
		return err
	}
	start, err := m.operator.usage()
	if err != nil {
		return err
	}
	progress("at rest: watching it for %v", m.flags.rest)
	m.settledCPU = start.cpu
	if err := m.pause(ctx, m.flags.rest); err != nil {
		return err
	}
	if m.rested, err = m.operator.usage(); err != nil {
		return err
	}
	now, err := asked(m.world.auditLog)
	m.atRest = now.since(before)
	return err
}

func (m *measurement) create(ctx context.Context, from, to int) (keys []types.NamespacedName, err error) {
	for n := from; n < to; n++ {
		key, err := m.world.create(ctx, n)
		if err != nil {
			return nil, err
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// await waits until clusters are available.
func (m *measurement) await(ctx context.Context, keys []types.NamespacedName) error {
	said := time.Now()
	for {
		are := len(m.world.took(keys))
		if are == len(keys) {
			return nil
		}
		if time.Since(said) > 5*time.Second {
			said = time.Now()
			progress("%d of %d clusters are available", are, len(keys))
		}
		if err := m.pause(ctx, 5*time.Millisecond); err != nil {
			return fmt.Errorf("%d of %d clusters are available: %w", are, len(keys), err)
		}
	}
}

// settle is longer than the time between two looks at a cluster at rest (controllers/decide).
const settle = 25 * time.Second

// quiet waits until the operator asked nothing but watches and leases for a while.
func (m *measurement) quiet(ctx context.Context, lasting time.Duration) error {
	progress("waiting for %v without a request", lasting)
	last, since := -1, time.Now()
	for time.Since(since) < lasting {
		now, err := asked(m.world.auditLog)
		if err != nil {
			return err
		}
		if _, _, others := now.kinds(); others != last {
			last, since = others, time.Now()
		}
		if err := m.pause(ctx, 500*time.Millisecond); err != nil {
			return fmt.Errorf("the operator does not come to rest, it asked %d times: %w", last, err)
		}
	}
	return nil
}

// pause lets time pass, unless the measurement is over or something that it needs has ended.
func (m *measurement) pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case err := <-m.world.failed:
		return fmt.Errorf("the stand-ins ended: %w", err)
	case <-m.operator.ended:
		return errors.New("the operator ended")
	case <-time.After(d):
		return nil
	}
}

func progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, time.Now().Format("15:04:05 ")+format+"\n", args...)
}
