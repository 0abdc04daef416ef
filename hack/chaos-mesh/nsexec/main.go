// Command nsexec runs a command in another process's namespaces. It takes the place of the program of that name that
// Chaos Mesh's daemon calls, and knows of its flags those that the daemon gives for network chaos:
//
//	nsexec -n /proc/PID/ns/net -- COMMAND ARGUMENTS...
package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

func main() {
	runtime.LockOSThread() // a namespace is entered by a thread, and exec keeps that of the thread that calls it
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "nsexec:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	for len(args) >= 2 && args[0] != "--" {
		if args[0] != "-n" {
			return fmt.Errorf("flag %s: this one enters network namespaces only: want -n", args[0])
		}
		fd, err := unix.Open(args[1], unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("open %s: %w", args[1], err)
		}
		if err := unix.Setns(fd, unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("enter %s: %w", args[1], err)
		}
		args = args[2:]
	}
	if len(args) < 2 || args[0] != "--" {
		return fmt.Errorf("want -n NAMESPACE -- COMMAND")
	}
	path, err := exec.LookPath(args[1])
	if err != nil {
		return err
	}
	return syscall.Exec(path, args[1:], os.Environ())
}
