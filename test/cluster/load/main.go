// Command load loads a store from sites that come and go, for tests of changes of its members. Its image has nothing
// else, so it also writes and reads its own files:
//
//	load run -site NAME=HOST:PORT ...   loads until it is told to end, reads back, and keeps the history
//	load end SITE ...                   tells it to end, and where to read every key back
//	load history                        prints the history, as lines of JSON, once it is complete
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/georegister/georegister/client"
	"github.com/georegister/georegister/replica/history"
	"github.com/georegister/georegister/workload"
	"github.com/georegister/georegister/workload/checked"
)

const (
	directory   = "/data"
	historyFile = directory + "/history"
	endFile     = directory + "/end"

	// seed makes the operations; their interleaving is as real as the time.
	seed = 1
	// lookEvery is how often the load looks for the word to end.
	lookEvery = 100 * time.Millisecond
	// tellEvery is the time between two lines of progress.
	tellEvery = 5 * time.Second
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := command(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(1)
	}
}

func command(ctx context.Context, args []string, out io.Writer) error {
	switch {
	case len(args) > 0 && args[0] == "run":
		return run(ctx, args[1:], out)
	case len(args) > 1 && args[0] == "end":
		return replaceFile(endFile, strings.Join(args[1:], " "))
	case len(args) == 1 && args[0] == "history":
		file, err := os.Open(historyFile)
		if err != nil {
			return fmt.Errorf("the history is not complete: %w", err)
		}
		_, err = io.Copy(out, file)
		return errors.Join(err, file.Close())
	}
	return errors.New("want run -site NAME=HOST:PORT ..., end SITE ..., or history")
}

// replaceFile has a file appear whole.
func replaceFile(name, content string) error {
	if err := os.WriteFile(name+".new", []byte(content), 0o600); err != nil {
		return err
	}
	return os.Rename(name+".new", name)
}

// run loads the store, and stays until it is ended, so that its history can be fetched.
func run(ctx context.Context, args []string, out io.Writer) error {
	prefix := "load/" + rand.Text() + "/" // of this run alone
	reached := map[string]*site{}
	var sites []workload.Site
	flags := flag.NewFlagSet("run", flag.ContinueOnError)
	clients := flags.Int("clients", 3, "how many clients at each site")
	every := flags.Duration("every", 20*time.Millisecond, "how often a client begins an operation at most")
	flags.Func("site", "a site, now or later, NAME=HOST:PORT of its gRPC port; give it once for each",
		func(value string) error {
			name, address, ok := strings.Cut(value, "=")
			if !ok || reached[name] != nil {
				return errors.New("write it like ca=shop--ca:7001, each site once")
			}
			s := &site{endpoint: client.Endpoint{Site: name, Address: address}, out: out}
			reached[name] = s
			sites = append(sites, workload.Site{Name: name, Connect: func(context.Context, int) (workload.Doer, error) {
				return checked.Prefixed(&visitor{site: s}, prefix), nil
			}})
			return nil
		})
	if err := flags.Parse(args); err != nil {
		return err
	}
	spec, err := checked.Spec("Gryff")
	if err != nil {
		return err
	}
	start := time.Now()
	recorder := history.NewRecorder(func() time.Duration { return time.Since(start) })
	fmt.Fprintf(out, "began %s\n", start.Format(time.RFC3339Nano))

	loading, end := context.WithCancel(ctx)
	defer end()
	var last []string // written before loading ends
	go func() {
		defer end()
		last = awaitEnd(loading)
	}()
	told := newTeller(out, start)
	if _, err := (workload.Loop{
		Spec: spec, Sites: sites, Clients: *clients, Seed: seed, Every: *every,
		Operations: checked.MaxOperations, Recorder: recorder, Progress: told.progress,
	}).Run(loading); err != nil {
		return err
	}
	if <-loading.Done(); len(last) == 0 {
		return errors.New("interrupted before it was told to end")
	}
	var left []workload.Site
	for _, site := range sites {
		for _, name := range last {
			if site.Name == name {
				left = append(left, site)
			}
		}
	}
	if len(left) != len(last) {
		return fmt.Errorf("told to end at the sites %v, of which not all were given", last)
	}
	if err := checked.ReadBack(ctx, left, recorder); err != nil {
		return err
	}
	operations := recorder.Operations()
	if err := history.WriteRecordFile(historyFile+".new", history.Record{Operations: operations}); err != nil {
		return err
	}
	if err := os.Rename(historyFile+".new", historyFile); err != nil {
		return err
	}
	fmt.Fprintf(out, "complete: %d operations in %s\n", len(operations), filepath.Base(historyFile))
	<-ctx.Done()
	return nil
}

// awaitEnd waits for the word to end, and returns the sites that it names; none if the context ends before.
func awaitEnd(ctx context.Context) []string {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			if content, err := os.ReadFile(endFile); err == nil {
				return strings.Fields(string(content))
			}
		}
	}
}
