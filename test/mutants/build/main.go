// Command build makes bin/georegister-mutants: georegister with all mutants, of which the environment chooses one.
package main

import (
	"fmt"
	"os"
	"os/exec"

	"github.com/georegister/georegister/test/mutants"
)

const program = "bin/georegister-mutants"

func main() {
	if err := build(); err != nil {
		fmt.Fprintln(os.Stderr, "build with mutants:", err)
		os.Exit(1)
	}
	fmt.Printf("%s runs the mutant that %s names\n", program, mutants.Variable)
}

// build is run in the module's folder.
func build() error {
	all, err := mutants.Load(os.DirFS("test/mutants"))
	if err != nil {
		return err
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
	c := exec.Command("go", "build", "-overlay", overlay, "-o", program, "./cmd/georegister")
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	return c.Run()
}
