package plugin

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"

	"github.com/georegister/georegister/controllers/build"
)

// maxLine bounds a line of a log, in bytes: a longer one is cut into several.
const maxLine = 1 << 20

// LogOptions say which logs to print.
type LogOptions struct {
	Site     string // empty: all sites
	Follow   bool
	Previous bool          // of the containers that ended before
	Tail     int64         // lines of each member; below 0: all
	Since    time.Duration // 0: from the start
}

// Logs prints the logs of a cluster's members as one, each line behind the name of its pod. Lines of
// one member are in order; between members the order is that of arrival.
func (k *Kubernetes) Logs(ctx context.Context, out io.Writer, name string, o LogOptions) error {
	c, err := k.cluster(ctx, name)
	if err != nil {
		return err
	}
	pods, err := k.memberPods(ctx, c.Name, o.Site)
	if err != nil {
		return err
	}
	if len(pods) == 0 {
		return fmt.Errorf("cluster %s has no pods at %s; see `kubectl georegister status %s`", c.Name,
			siteOrAll(o.Site), c.Name)
	}
	options := &corev1.PodLogOptions{Container: build.Container, Follow: o.Follow, Previous: o.Previous}
	if o.Tail >= 0 {
		options.TailLines = &o.Tail
	}
	if o.Since > 0 {
		seconds := int64(max(o.Since, time.Second) / time.Second)
		options.SinceSeconds = &seconds
	}
	lines := &lineWriter{out: out}
	var group errgroup.Group
	for _, pod := range pods {
		group.Go(func() error {
			o := options
			if isWitness(&pod) {
				o = options.DeepCopy()
				o.Container = build.WitnessContainer
			}
			err := k.copyLog(ctx, lines, pod.Name, pod.Name, o)
			if err != nil && ctx.Err() == nil {
				// The other members' logs are wanted all the same.
				return errors.Join(err, lines.write(pod.Name, err.Error()))
			}
			return nil
		})
	}
	return group.Wait()
}

// copyLog writes the lines of a pod's log as they come, each behind a prefix.
func (k *Kubernetes) copyLog(
	ctx context.Context, lines *lineWriter, prefix, pod string, options *corev1.PodLogOptions,
) (err error) {
	stream, err := k.Pods.CoreV1().Pods(k.Namespace).GetLogs(pod, options).Stream(ctx)
	if err != nil {
		return fmt.Errorf("read the log of pod %s: %w", pod, err)
	}
	defer func() { err = errors.Join(err, stream.Close()) }()
	reader := bufio.NewReaderSize(stream, maxLine)
	for {
		line, _, err := reader.ReadLine()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the log of pod %s: %w", pod, err)
		}
		if err := lines.write(prefix, string(line)); err != nil {
			return err
		}
	}
}

// lineWriter keeps the lines of several writers whole.
type lineWriter struct {
	mu  sync.Mutex
	out io.Writer
}

func (w *lineWriter) write(prefix, line string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, err := fmt.Fprintf(w.out, "[%s] %s\n", prefix, line); err != nil {
		return fmt.Errorf("print a log: %w", err)
	}
	return nil
}

func siteOrAll(site string) string {
	if site == "" {
		return "any site"
	}
	return "site " + site
}
