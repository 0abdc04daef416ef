// Command build makes bin/georegister-mutants: georegister with all mutants, of which the environment chooses one.
package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"github.com/georegister/georegister/test/mutants"
)

const program = "bin/georegister-mutants"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := build(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "build with mutants:", err)
		os.Exit(1)
	}
	fmt.Printf("%s runs the mutant that %s names\n", program, mutants.Variable)
}

// build is run in the module's folder.
func build(ctx context.Context, words []string) error {
	if len(words) > 0 {
		return fmt.Errorf("%q: it takes nothing; %s chooses a mutant when the program runs", words[0], mutants.Variable)
	}
	all, err := mutants.Load(os.DirFS("test/mutants"))
	if err != nil {
		return fmt.Errorf("test/mutants, in the module's folder: %w", err)
	}
	module, err := os.Getwd()
	if err != nil {
		return err
	}
	files, err := os.MkdirTemp("", "georegister-mutants-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(files)
	overlay, err := mutants.Overlay(module, files, all)
	if err != nil {
		return err
	}
	c := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-overlay", overlay, "-o", program, "./cmd/georegister")
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	return c.Run()
}
