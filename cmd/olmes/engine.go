package main

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"olmes/engine/llamacpp"
	"olmes/engine/llamacpp/library"
	"olmes/run"
)

func (a *app) engineCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "engine",
		Short: "list or install the engine's libraries, list the devices they find",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.engineListCommand(), a.engineDevicesCommand(), a.engineInstallCommand())
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

func (a *app) engineDevicesCommand() *cobra.Command {
	var variant string
	var asJSON bool
	names := variantNames()
	cmd := &cobra.Command{
		Use:   "devices",
		Short: "list what a library computes with on this machine; --device takes the names of GPUs",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if variant != "" && !slices.Contains(names, variant) {
				return noVariant(variant, names)
			}
			store, err := a.store()
			if err != nil {
				return err
			}
			lib, list, err := run.Devices(cmd.Context(), library.Variant(variant), run.Env{Store: store, Reporter: a.reporter()})
			if err != nil {
				return err
			}
			if asJSON {
				return a.printJSON(list)
			}
			w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "device\tkind\tmemory\tfree\tdescription")
			for _, d := range list {
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", d.Name, d.Kind, gigabytes(d.Memory), gigabytes(d.Free), d.Description)
			}
			if err := w.Flush(); err != nil {
				return err
			}
			_, err = fmt.Fprintf(a.stdout, "library %s; layers can be put on %d of these\n", lib.Variant, len(llamacpp.GPUs(list)))
			return err
		},
	}
	cmd.Flags().StringVar(&variant, "engine-variant", "", strings.Join(names, ", ")+" (default: the best installed)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print as JSON")
	return cmd
}

func gigabytes(n int64) string {
	if n <= 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f GB", float64(n)/1e9)
}

func variantNames() []string {
	var names []string
	for _, v := range library.Variants() {
		names = append(names, string(v))
	}
	return names
}

func noVariant(name string, names []string) error {
	return &exitError{exitUsage, fmt.Errorf("there is no engine variant %q; it can be %s", name, strings.Join(names, ", "))}
}

func (a *app) engineInstallCommand() *cobra.Command {
	variant := string(library.CPU)
	names := variantNames()
	cmd := &cobra.Command{
		Use:   "install",
		Short: "install a variant: prebuilt through npm, or native, built here with cmake",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !slices.Contains(names, variant) {
				return noVariant(variant, names)
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
