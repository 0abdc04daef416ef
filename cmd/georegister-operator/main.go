// Command georegister-operator is all that talks to Kubernetes: the operator, and the plugin of kubectl. It is a
// program of its own, so that whoever wants a store on his machine does not wait for the libraries of Kubernetes to
// compile.
package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/georegister/georegister/cmd/program"
)

// version is set by the linker.
var version = "unknown"

func main() {
	if isPlugin(os.Args[0]) {
		program.Run(newPluginCommand())
		return
	}
	program.Run(newCommand())
}

func newCommand() *cobra.Command {
	command := &cobra.Command{
		Use:           "georegister-operator",
		Short:         "The Kubernetes operator of georegister, and its kubectl plugin",
		Version:       version,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	command.AddCommand(newRunCommand(), newKubectlCommand())
	return command
}
