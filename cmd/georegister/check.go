package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/georegister/georegister/replica/history"
	"github.com/georegister/georegister/replica/register"
)

const checkLong = `Decides whether a store of linearizable registers can have given the answers of a history, which simulate, dev
and bench write as lines of JSON, one operation each. Every answer is verified by its value; an operation of
unknown outcome may have taken effect once, at any time after it was sent, or never.

The exit status is 0 only if the history is linearizable. A search that does not end in time is a failure. For a
violation, a small failing part of the history is printed, and drawn as a page for a browser.`

const checkExample = `  georegister check history.jsonl
  georegister check --picture violation.html - < history.jsonl`

// checkFlags are the flags of check as they were given.
type checkFlags struct {
	timeout time.Duration
	picture string
	torn    bool
}

func newCheckCommand() *cobra.Command {
	var f checkFlags
	c := &cobra.Command{
		Use:     "check HISTORY",
		Short:   "Tell whether a recorded history is linearizable",
		Long:    checkLong,
		Example: checkExample,
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return runCheck(c.InOrStdin(), c.OutOrStdout(), args[0], f)
		},
	}
	flags := c.Flags()
	flags.DurationVar(&f.timeout, "timeout", 5*time.Minute, "how long to search; 0 is no bound")
	flags.StringVar(&f.picture, "picture", "", "where to draw a violation (default HISTORY.html, or history.html for -)")
	flags.BoolVar(&f.torn, "torn", false, "leave out a last line without an end, which a killed process leaves")
	return c
}

// runCheck checks the history in a file, or on in if the file is "-".
func runCheck(in io.Reader, out io.Writer, name string, f checkFlags) error {
	if f.timeout < 0 {
		return fmt.Errorf("--timeout is %v; give 0 for no bound, or more", f.timeout)
	}
	operations, err := readHistory(in, name, f.torn)
	if err != nil {
		return err
	}
	if len(operations) == 0 {
		return fmt.Errorf("%s has no operations; there is nothing to check", name)
	}
	if err := checkFunctions(operations); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	begun := time.Now()
	verdict := history.Check(operations, history.Options{Timeout: f.timeout})
	fmt.Fprintf(out, "verdict: %s\n%d operations on %d keys, %d checked, %d of them of unknown outcome, in %v\n",
		verdict.Outcome, verdict.Operations, verdict.Keys, verdict.Checked, verdict.Unknown,
		time.Since(begun).Round(time.Millisecond))
	if verdict.OK() {
		return nil
	}
	fmt.Fprintln(out, verdict.Explanation)
	if verdict.Outcome == history.Timeout {
		return errors.New("the check did not end in time, so nothing is known; allow more with --timeout")
	}
	picture := f.picture
	if picture == "" {
		if picture = name + ".html"; name == "-" {
			picture = "history.html"
		}
	}
	if err := draw(verdict, picture); err != nil {
		return errors.Join(errors.New("the history is not linearizable"), err)
	}
	fmt.Fprintf(out, "picture: %s\n", picture)
	return errors.New("the history is not linearizable")
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
			return fmt.Errorf("client %s, key %q, invoked_ns %d: %w", o.Client, o.Request.Key, o.Invoked.Nanoseconds(), err)
		}
	}
	return nil
}

func readHistory(in io.Reader, name string, torn bool) ([]history.Operation, error) {
	if name == "-" {
		name = "standard input"
	} else {
		file, err := os.Open(name)
		if err != nil {
			return nil, fmt.Errorf("open the history: %w", err)
		}
		defer file.Close()
		in = file
	}
	read := history.Read
	if torn {
		read = history.ReadTorn
	}
	operations, err := read(in)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return operations, nil
}

func draw(verdict history.Verdict, name string) (err error) {
	file, err := os.Create(name)
	if err != nil {
		return fmt.Errorf("create the picture: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	buffer := bufio.NewWriter(file)
	if err := verdict.Picture(buffer); err != nil {
		return err
	}
	if err := buffer.Flush(); err != nil {
		return fmt.Errorf("write the picture: %w", err)
	}
	return nil
}
