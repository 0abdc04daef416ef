package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/workload/bench"
)

// newBenchCommand measures a store that runs already.
func newBenchCommand() *cobra.Command {
	var (
		o                          bench.Options
		listener, format           string
		kinds                      []string
		skipFill                   bool
		fillWithin                 = time.Minute
		defaultListener, listeners = "grpc", strings.Join(bench.DialerNames(), ", ")
	)
	command := &cobra.Command{
		Use:   "bench --addresses HOST:PORT,...",
		Short: "Measure throughput and latency",
		Long: "Measures a running store. Each client has a connection of its own, and sends its next operation when\n" +
			"the one before is answered; with --depth, the next so many together. With --rate operations become " +
			"due at\nrandom times, and a client that is free sends the next. Clients are spread over the addresses." +
			"\n\n" +
			"Listeners: grpc makes one call per operation, stream sends batches over one gRPC stream per client, " +
			"redis speaks\n" +
			"the Redis protocol, etcd measures an etcd for comparison, and WAIT a Redis whose clients " +
			"wait until\none of its replicas has what they wrote.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if o.Dialer, err = bench.FindDialer(listener); err != nil {
				return fmt.Errorf("--listener: %w", err)
			}
			if o.Kinds, err = parseKinds(kinds); err != nil {
				return fmt.Errorf("--operation: %w", err)
			}
			if format != "table" && format != "json" {
				return fmt.Errorf("--output: unknown format %q; use table or json", format)
			}
			if slices.Contains(o.Kinds, register.Read) && !skipFill {
				ctx, cancel := context.WithTimeout(cmd.Context(), fillWithin)
				defer cancel()
				if err := bench.Fill(ctx, o); err != nil {
					return fmt.Errorf("write the keys that are to be read: %w", err)
				}
			}
			result, err := bench.Run(cmd.Context(), o)
			if err != nil {
				return err
			}
			return printBench(cmd.OutOrStdout(), format, result)
		},
	}
	flags := command.Flags()
	flags.StringSliceVar(&o.Addresses, "addresses", nil, "where the store listens, comma separated")
	flags.StringVar(&listener, "listener", defaultListener, "the listener of the store: "+listeners)
	flags.StringSliceVar(&kinds, "operation", []string{"write"},
		"what to do: read, write or rmw (adds 1); of several, such as read,write, one is drawn each time")
	flags.IntVar(&o.Clients, "clients", 16, "how many clients")
	flags.IntVar(&o.Depth, "depth", 1, "how many operations each client sends together (listeners stream and redis)")
	flags.IntVar(&o.Keys, "keys", 10000, "how many keys there are")
	flags.IntVar(&o.ValueBytes, "value-bytes", 16, "how long written values are; they are random")
	flags.Float64Var(&o.Rate, "rate", 0,
		"how many operations a second all clients send together, whether or not those before were answered in time; "+
			"latencies count from when an operation was due. 0: each client waits for its answer only")
	flags.DurationVar(&o.Warmup, "warmup", time.Second, "how long to run before the measurement")
	flags.DurationVar(&o.Duration, "duration", 5*time.Second, "how long to measure")
	flags.IntSliceVar(&o.Servers, "pids", nil, "process ids of the store on this machine, whose CPU time is measured")
	flags.BoolVar(&skipFill, "skip-fill", false, "do not write the keys before they are read")
	flags.StringVarP(&format, "output", "o", "table", "table or json")
	_ = command.MarkFlagRequired("addresses") // it fails only for a flag that does not exist
	return command
}

func parseKinds(names []string) (kinds []register.Kind, err error) {
	known := []register.Kind{register.Read, register.Write, register.RMW}
	for _, name := range names {
		at := slices.IndexFunc(known, func(k register.Kind) bool { return k.String() == name })
		if at < 0 {
			return nil, fmt.Errorf("unknown operation %q; use read, write or rmw", name)
		}
		kinds = append(kinds, known[at])
	}
	return kinds, nil
}

func printBench(w io.Writer, format string, r bench.Result) error {
	ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	if format == "json" {
		return json.NewEncoder(w).Encode(map[string]float64{
			"operations": float64(r.Operations), "operations_per_second": r.Throughput(),
			"p50_ms": ms(r.P50), "p99_ms": ms(r.P99), "p999_ms": ms(r.P999),
			"cpu_us_per_operation": float64(r.CPUPerOperation()) / float64(time.Microsecond),
		})
	}
	_, err := fmt.Fprintf(w, "operations  %d\nthroughput  %.0f/s\n"+
		"p50         %.2f ms\np99         %.2f ms\np99.9       %.2f ms\n",
		r.Operations, r.Throughput(), ms(r.P50), ms(r.P99), ms(r.P999))
	if err == nil && r.CPU > 0 {
		_, err = fmt.Fprintf(w, "CPU         %s per operation, all members together\n", r.CPUPerOperation())
	}
	return err
}
