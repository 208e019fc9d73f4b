package main

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"olmes/engine/llamacpp/library"
	"olmes/run"
)

func (a *app) engineCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "engine",
		Short: "list or install the engine's libraries",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.engineListCommand(), a.engineInstallCommand())
	return cmd
}

func (a *app) engineListCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "list the variants of llama.cpp's libraries, * marks the one a run takes",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			store, err := a.store()
			if err != nil {
				return err
			}
			list := library.List(store)
			if asJSON {
				return a.printJSON(list)
			}
			w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, " \tvariant\tversion\tstate\tfrom")
			for _, s := range list {
				mark, state := " ", "not installed"
				if s.Best {
					mark = "*"
				}
				if s.Installed {
					state = "installed"
				}
				if s.Problem != "" {
					state += ": " + s.Problem
				}
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", mark, s.Variant, library.Version, state, s.Library.Source)
			}
			return w.Flush()
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print as JSON")
	return cmd
}

func (a *app) engineInstallCommand() *cobra.Command {
	variant := string(library.CPU)
	var names []string
	for _, v := range library.Variants() {
		names = append(names, string(v))
	}
	cmd := &cobra.Command{
		Use:   "install",
		Short: "install a variant: prebuilt through npm, or native, built here with cmake",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !slices.Contains(names, variant) {
				return &exitError{exitUsage, fmt.Errorf("there is no engine variant %q; it can be %s", variant, strings.Join(names, ", "))}
			}
			store, err := a.store()
			if err != nil {
				return err
			}
			lib, err := run.InstallEngine(cmd.Context(), library.Variant(variant), run.Env{Store: store, Reporter: a.reporter()})
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(a.stdout, "%s %s is in %s\n", lib.Variant, lib.Version, lib.Dir)
			return err
		},
	}
	cmd.Flags().StringVar(&variant, "variant", variant, strings.Join(names, ", "))
	return cmd
}
