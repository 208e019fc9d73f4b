package main

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"olmes/run"
)

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "print the version of the program and of the standard",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintf(a.stdout, "olmes %s (standard %s, %s, %s/%s)\n", run.Version, run.Standard, runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
}
