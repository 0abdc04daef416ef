package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/georegister/georegister/replica/history"
	"github.com/georegister/georegister/replica/history/transactions"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/workload/checked"
)

const checkLong = `Decides whether a store can have given the answers of a history, which simulate, dev, verify and others
write as lines of JSON, one operation each. Every answer is verified by its value; an operation of unknown outcome may
have taken effect once, at any time after it was sent, or never.

With --model linearizable the store is one of linearizable registers. A search that does not end in time is a failure. For a
violation, a small failing part of the history is printed, and drawn as a page for a browser.

With --model rsc it is one that is regular sequentially consistent, as GryffRSC is: a read that has returned is a reason to see
its value only for those who know of it. Messages between clients and fences are lines of the history too. For a
violation, a shortest cycle is printed: operations each of which has to come before the next one, with the reason in words. What
can't be decided within --max-states is a failure.

With --model strict-serializable or rss (regular sequentially serializable) it is one of transactions over many keys,
of which each is a line, too; plain reads and writes count as transactions of one key. For a violation that follows from
values and clocks, a shortest cycle is printed.

A line may have 128 MiB, and the whole check may take --max-memory; a history that needs more is refused. SIGINT and SIGTERM end the check at once.

The exit status is 0 only if the history is what the model says.`

const checkExample = `  georegister check history.jsonl
  georegister check --model rsc history.jsonl
  georegister check --model strict-serializable transactions.jsonl
  georegister check --picture violation.html - < history.jsonl`

// The models, as --model spells them.
const (
	linearizableModel = "linearizable"
	rscModel          = "rsc"
	strictModel       = "strict-serializable"
	rssModel          = "rss"
)

// notFor are the flags that have no meaning with a model.
var notFor = map[string][]string{
	linearizableModel: {"max-states"}, rscModel: {"timeout", "picture", "stale"},
	strictModel: {"timeout", "picture", "stale"}, rssModel: {"timeout", "picture", "stale"},
}

// checkFlags are the flags of check as they were given. An empty model is linearizable.
type checkFlags struct {
	model     string
	timeout   time.Duration
	picture   string
	torn      bool
	stale     time.Duration
	maxStates int
	maxMemory string // empty: toolMemory
}

func newCheckCommand() *cobra.Command {
	var f checkFlags
	c := &cobra.Command{
		Use:     "check HISTORY",
		Short:   "Tell whether a recorded history is linearizable, or what another model says",
		Long:    checkLong,
		Example: checkExample,
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			for _, name := range notFor[f.model] {
				if c.Flags().Changed(name) {
					return fmt.Errorf("--%s has no meaning with --model %s; leave it out", name, f.model)
				}
			}
			defer checked.Every(tellEvery, func(elapsed time.Duration) {
				fmt.Fprintf(c.ErrOrStderr(), "checking %s for %v\n", args[0], elapsed.Round(time.Second))
			})()
			return runCheck(c.Context(), c.InOrStdin(), c.OutOrStdout(), args[0], f)
		},
	}
	flags := c.Flags()
	flags.StringVar(&f.model, "model", linearizableModel,
		"what the history should be: linearizable, or rsc (regular sequentially consistent); of transactions, "+
			"strict-serializable, or rss (regular sequentially serializable)")
	flags.DurationVar(&f.timeout, "timeout", 5*time.Minute, "how long to search; 0 is no bound")
	flags.StringVar(&f.picture, "picture", "",
		"where to draw a violation (default HISTORY.html, or history.html for -)")
	flags.DurationVar(&f.stale, "stale", 0,
		"how old the answers to reads that may be stale can be, such as CURP's lease; 0 leaves them unjudged")
	flags.BoolVar(&f.torn, "torn", false, "leave out a last line without an end, which a killed process leaves")
	flags.IntVar(&f.maxStates, "max-states", 0,
		"with the other models: how much each search by values alone may try; 0 is 200000")
	flags.StringVar(&f.maxMemory, "max-memory", "",
		"how much memory the check may take, such as 4Gi (default: half of the machine's)")
	return c
}

// memory is how many bytes the check may take.
func (f checkFlags) memory() (int64, error) {
	if f.maxMemory == "" {
		return toolMemory(), nil
	}
	q, err := resource.ParseQuantity(f.maxMemory)
	if err != nil || q.Value() < leastMemory {
		return 0, fmt.Errorf("--max-memory is %q; give at least %s, such as 4Gi", f.maxMemory, quantity(leastMemory))
	}
	return q.Value(), nil
}

// leastMemory is what a check takes with next to no history.
const leastMemory = 64 << 20

// runCheck checks the history in a file, or on in if the file is "-".
func runCheck(ctx context.Context, in io.Reader, out io.Writer, name string, f checkFlags) error {
	switch {
	case f.stale < 0:
		return fmt.Errorf("--stale is %v; give 0 to leave reads that may be stale unjudged, or more", f.stale)
	case f.timeout < 0:
		return fmt.Errorf("--timeout is %v; give 0 for no bound, or more", f.timeout)
	case f.maxStates < 0:
		return fmt.Errorf("--max-states is %d; give 0 for the usual bound, or more", f.maxStates)
	case f.model != "" && notFor[f.model] == nil:
		return fmt.Errorf("--model is %q; give %s, %s, %s or %s", f.model, linearizableModel, rscModel, strictModel,
			rssModel)
	}
	memory, err := f.memory()
	if err != nil {
		return err
	}
	ctx, stop := boundMemory(ctx, memory, "check fewer operations at once, or allow more with --max-memory")
	defer stop()
	record, err := readHistory(ctx, in, name, f.torn)
	if err != nil {
		return err
	}
	if len(record.Operations)+len(record.Transactions) == 0 {
		return fmt.Errorf("%s has no operations; there is nothing to check", name)
	}
	if f.model == strictModel || f.model == rssModel {
		return checkTransactions(ctx, out, name, record, f)
	}
	if len(record.Transactions) > 0 {
		return fmt.Errorf("%s has transactions; give --model %s or %s", name, strictModel, rssModel)
	}
	if err := checkFunctions(record.Operations); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if f.model == rscModel {
		return checkRSC(ctx, out, name, record, f.maxStates)
	}
	return checkLinearizable(ctx, out, name, record, f)
}

// checkRSC judges a history by regular sequential consistency.
func checkRSC(ctx context.Context, out io.Writer, name string, record history.Record, maxStates int) error {
	begun := time.Now()
	verdict, err := record.CheckRSC(ctx, history.RSCOptions{MaxStates: maxStates})
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	fmt.Fprintf(out,
		"verdict: %s\n%d operations on %d keys, %d checked, %d of them of unknown outcome, %d messages and %d "+
			"fences, in %v\n",
		verdict.Outcome, verdict.Operations, verdict.Keys, verdict.Checked, verdict.Unknown,
		len(record.Messages), len(record.Fences), time.Since(begun).Round(time.Millisecond))
	if verdict.OK() {
		return nil
	}
	fmt.Fprintln(out, verdict.Explanation)
	return failed(name, verdict.Outcome, verdict.Explanation,
		errors.New("the history is not regular sequentially consistent"))
}

// failed is the error of a check without success: wrong if there is a violation, and else why nothing is known.
func failed(name string, outcome history.Outcome, explanation string, wrong error) error {
	switch outcome {
	case history.Stopped:
		return fmt.Errorf("%s: %s", name, explanation)
	case history.Timeout:
		return errors.New("the check did not end in time, so nothing is known; allow more with --timeout")
	case history.Undecided:
		return errors.New("the check could not decide, so nothing is known; allow more with --max-states")
	}
	return wrong
}

// checkTransactions judges a history by a model of transactions.
func checkTransactions(
	ctx context.Context, out io.Writer, name string, record history.Record, f checkFlags,
) error {
	single, err := transactions.OfOperations(record.Operations)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	record.Transactions = append(record.Transactions, single...)
	options := transactions.Options{MaxStates: f.maxStates}
	if f.model == rssModel {
		options.Model = transactions.Regular
	}
	begun := time.Now()
	verdict := transactions.Check(ctx, record, options)
	fmt.Fprintf(out,
		"verdict: %s\n%d transactions on %d keys, %d checked, %d of them of unknown outcome, %d messages and %d "+
			"fences, in %v\n",
		verdict.Outcome, verdict.Transactions, verdict.Keys, verdict.Checked, verdict.Unknown, len(record.Messages),
		len(record.Fences), time.Since(begun).Round(time.Millisecond))
	if verdict.OK() {
		return nil
	}
	fmt.Fprintln(out, verdict.Explanation)
	return failed(name, verdict.Outcome, verdict.Explanation, fmt.Errorf("the history is not %s", options.Model))
}

// checkLinearizable judges a history by linearizability, of which messages and fences are no part: real time orders
// more.
func checkLinearizable(ctx context.Context, out io.Writer, name string, record history.Record, f checkFlags) error {
	begun, operations := time.Now(), record.Operations
	verdict, wrong := history.Check(ctx, operations, history.Options{Timeout: f.timeout}),
		errors.New("the history is not linearizable")
	if verdict.OK() && f.stale > 0 {
		verdict = history.CheckStale(ctx, operations, f.stale, history.Options{Timeout: f.timeout})
		wrong = fmt.Errorf("the history is linearizable, but for reads that may be stale: one is older than %v, or "+
			"told of what was lost", f.stale)
	}
	fmt.Fprintf(out, "verdict: %s\n%d operations on %d keys, %d checked, %d of them of unknown outcome, in %v\n",
		verdict.Outcome, verdict.Operations, verdict.Keys, verdict.Checked, verdict.Unknown,
		time.Since(begun).Round(time.Millisecond))
	if verdict.OK() {
		return nil
	}
	fmt.Fprintln(out, verdict.Explanation)
	if verdict.Outcome != history.Violation {
		return failed(name, verdict.Outcome, verdict.Explanation, wrong)
	}
	if n := len(record.Messages) + len(record.Fences); n > 0 {
		fmt.Fprintf(out,
			"the history has %d messages and fences: if its store promises regular sequential consistency, check "+
				"that with --model rsc\n", n)
	}
	picture := f.picture
	if picture == "" {
		if picture = name + ".html"; name == "-" {
			picture = "history.html"
		}
	}
	if err := draw(ctx, verdict, picture); err != nil {
		return errors.Join(wrong, err)
	}
	fmt.Fprintf(out, "picture: %s\n", picture)
	return wrong
}

// checkFunctions refuses a history with functions that this program lacks: it would call their answers wrong.
func checkFunctions(operations []history.Operation) error {
	known := register.NewRegistry()
	for _, o := range operations {
		took := o.Result.Status == register.OK || o.Result.Status == register.Unknown
		if o.Request.Kind != register.RMW || !took {
			continue
		}
		if err := known.Check(o.Request.Call); err != nil {
			return fmt.Errorf("client %s, key %q, invoked_ns %d: %w", o.Client, o.Request.Key,
				o.Invoked.Nanoseconds(), err)
		}
	}
	return nil
}

// readHistory reads a history, until the context ends: also where no byte comes, from a terminal or a pipe.
func readHistory(ctx context.Context, in io.Reader, name string, torn bool) (history.Record, error) {
	open := func() (io.ReadCloser, error) { return io.NopCloser(in), nil }
	if name == "-" {
		name = "standard input"
	} else if info, err := os.Stat(name); err == nil && info.IsDir() {
		return history.Record{}, fmt.Errorf("%s is a directory; give the file of a history", name)
	} else {
		open = func() (io.ReadCloser, error) { return os.Open(name) }
	}
	read, write := io.Pipe()
	defer read.Close()
	go func() { // what it waits for can't be broken off: it is left alone
		file, err := open()
		if err == nil {
			_, err = io.Copy(write, file)
			err = errors.Join(err, file.Close())
		}
		write.CloseWithError(err)
	}()
	defer context.AfterFunc(ctx, func() { write.CloseWithError(fmt.Errorf("stopped: %w", context.Cause(ctx))) })()
	record, err := history.ReadRecord(ctx, read, torn)
	if errors.Is(err, history.ErrTorn) {
		err = fmt.Errorf("%w: --torn leaves it out", err)
	}
	if err != nil {
		return history.Record{}, fmt.Errorf("%s: %w", name, err)
	}
	return record, nil
}

func draw(ctx context.Context, verdict history.Verdict, name string) error {
	var page bytes.Buffer
	if err := verdict.Picture(ctx, &page); err != nil {
		return err
	}
	if err := os.WriteFile(name, page.Bytes(), 0o666); err != nil {
		return fmt.Errorf("write the picture: %w", err)
	}
	return nil
}
