package main

import (
	"github.com/spf13/cobra"

	"olmes/engine/llamacpp"
)

// engineHostCommand is the child process that a run starts: llama.cpp behind
// the wire protocol on standard input and output.
func (a *app) engineHostCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "engine-host",
		Short:  "serve the embedded engine on standard input and output",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return llamacpp.Host(cmd.Context(), a.stdin, a.stdout)
		},
	}
}
