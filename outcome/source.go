package outcome

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"olmes/record"
)

// Source is a sealed record and what to call it.
type Source struct {
	Label  string // unique among the sources opened together
	Record *record.Record
}

// Problem is a folder that was meant and cannot be used.
type Problem struct {
	Path string
	Err  error
}

func (p Problem) Error() string { return p.Path + ": " + p.Err.Error() }

// Unwrap returns the cause.
func (p Problem) Unwrap() error { return p.Err }

// ErrNoRecords says that a name matched no record at all.
var ErrNoRecords = errors.New("no record found")

// Sources opens the records that names mean, in their order, each folder once, and
// once more under each other label that is given for it.
// A name is a record's folder, a folder of such folders, a glob of either, or
// the beginning of the id of a run below roots (none means
// record.DefaultRoot); "label=NAME" calls it label, and where it means several,
// label/1, label/2 and so on. Without a label a run is called by its model, with
// the short id where that is not unique.
//
// What was meant and cannot be used (damaged, not finished, of a newer format)
// is in the problems, by path; the caller decides whether to go on without. The
// error is for a name that matches nothing.
func Sources(names []string, roots ...string) ([]Source, []Problem, error) {
	s := sources{seen: map[string]*folder{}, roots: roots}
	for _, name := range names {
		if err := s.add(name); err != nil {
			return nil, nil, err
		}
	}
	s.open()
	for _, m := range s.meant {
		s.place(m)
	}
	s.label()
	return s.found, s.problems, nil
}

type sources struct {
	roots    []string
	seen     map[string]*folder // by absolute folder
	meant    []meant
	found    []Source
	problems []Problem
}

// meant is what one name means.
type meant struct {
	label   string
	folders []*folder
}

// folder is a folder that was named.
type folder struct {
	dir    string         // as it was named first
	record *record.Record // nil where it cannot be used
	err    error          // why not; nil once it is told
	labels []string       // as given, "" for none
	bare   int            // in found, where it has no label yet; else -1
}

func (s *sources) add(name string) error {
	label, path := splitLabel(name)
	dirs, err := s.folders(path)
	if err != nil {
		if fault := s.labelFault(name); fault != "" {
			return named{fault, ErrNoRecords}
		}
		return err
	}
	m := meant{label: label}
	for _, dir := range dirs {
		key, err := filepath.Abs(dir)
		if err != nil {
			return fmt.Errorf("%s: %w", dir, err)
		}
		if s.seen[key] == nil {
			s.seen[key] = &folder{dir: dir, bare: -1}
		}
		m.folders = append(m.folders, s.seen[key])
	}
	s.meant = append(s.meant, m)
	return nil
}

// open opens the folders, as many at a time as there are processors.
func (s *sources) open() {
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for _, f := range s.seen {
		g.Go(func() error {
			f.record, f.err = open(f.dir)
			return nil
		})
	}
	_ = g.Wait() // each folder has its own error
}

// place puts the records of a name where they belong, in the order of the names.
func (s *sources) place(m meant) {
	var usable []*folder
	for _, f := range m.folders {
		if f.err != nil {
			s.problems = append(s.problems, Problem{f.dir, f.err})
			f.err = nil
		}
		if f.record != nil {
			usable = append(usable, f)
		}
	}
	for i, f := range usable {
		as := m.label
		if m.label != "" && len(usable) > 1 {
			as = fmt.Sprintf("%s/%d", m.label, i+1)
		}
		switch {
		case slices.Contains(f.labels, as) || as == "" && len(f.labels) > 0:
			continue
		case f.bare >= 0: // what it is called comes after it was named
			s.found[f.bare].Label, f.bare = as, -1
		default:
			if as == "" {
				f.bare = len(s.found)
			}
			s.found = append(s.found, Source{Label: as, Record: f.record})
		}
		f.labels = append(f.labels, as)
	}
}

// open opens a record that can be read as it says.
func open(dir string) (*record.Record, error) {
	r, err := record.Open(dir)
	if err != nil {
		return nil, trim(dir, err)
	}
	if err := r.CheckID(); err != nil {
		return nil, trim(dir, err)
	}
	if !r.Complete() {
		return nil, fmt.Errorf("%w (%d chunks are there): run the same command again to finish it", record.ErrIncomplete, r.Finished())
	}
	if err := r.CheckSizes(); err != nil {
		return nil, trim(dir, err)
	}
	return r, nil
}

// trim cuts a folder that an error's text begins with, and keeps its kind.
func trim(dir string, err error) error {
	text, cut := strings.CutPrefix(err.Error(), dir)
	if !cut {
		return err
	}
	return named{strings.TrimLeft(text, ": "+string(filepath.Separator)), err}
}

type named struct {
	text string
	err  error
}

func (n named) Error() string { return n.text }
func (n named) Unwrap() error { return n.err }

// notInLabels are the characters by which a path or a glob is told from a label.
const notInLabels = `/\*?[`

// labelFault says what is wrong with the label of a name that means nothing, "" where
// that is not it.
func (s *sources) labelFault(name string) string {
	before, after, ok := strings.Cut(name, "=")
	if !ok {
		return ""
	}
	if after == "" {
		return fmt.Sprintf("%q names no run after its label", name)
	}
	if _, err := s.folders(after); err != nil && !strings.ContainsAny(before, notInLabels) {
		return ""
	} else if err != nil {
		return fmt.Sprintf("no such run: %q; if %q is meant as a label, it cannot have any of %s", name, before, strings.Join(strings.Split(notInLabels, ""), " "))
	}
	if before == "" {
		return fmt.Sprintf("the label of %q is empty", name)
	}
	at := strings.IndexAny(before, notInLabels)
	if at < 0 {
		return ""
	}
	return fmt.Sprintf("the label %q of %q has a %q; a label cannot have any of %s", before, name, before[at:at+1], strings.Join(strings.Split(notInLabels, ""), " "))
}

// splitLabel parts "label=path". A path that exists as it is has no label.
func splitLabel(name string) (label, path string) {
	before, after, ok := strings.Cut(name, "=")
	if !ok || before == "" || after == "" || strings.ContainsAny(before, notInLabels) {
		return "", name
	}
	if _, err := os.Stat(name); err == nil {
		return "", name
	}
	return before, after
}

// folders returns the record folders that a path means.
func (s *sources) folders(path string) ([]string, error) {
	matches := []string{path}
	if _, err := os.Stat(path); err != nil {
		if strings.ContainsAny(path, "*?[") {
			var err error
			if matches, err = filepath.Glob(path); err != nil {
				return nil, fmt.Errorf("%q: %w", path, err)
			}
			if len(matches) == 0 {
				return nil, fmt.Errorf("%w: nothing matches %q", ErrNoRecords, path)
			}
		} else {
			dir, err := record.Find(path, s.roots...)
			if err != nil {
				return nil, err
			}
			matches = []string{dir}
		}
	}
	var out []string
	for _, m := range matches {
		within, err := within(m)
		if err != nil {
			return nil, err
		}
		out = append(out, within...)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%w in %s: a record is a folder with a manifest.json", ErrNoRecords, path)
	}
	return out, nil
}

// within returns a record's folder itself, or those of the records directly
// below a folder, in the order of their names.
func within(dir string) ([]string, error) {
	if isRecord(dir) {
		return []string{dir}, nil
	}
	info, err := os.Stat(dir)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("%s is a file: give a record's folder", dir)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range entries {
		if sub := filepath.Join(dir, e.Name()); isRecord(sub) {
			out = append(out, sub)
		}
	}
	return out, nil
}

func isRecord(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "manifest.json"))
	return err == nil
}

// label names what has no label, and makes labels unique.
func (s *sources) label() {
	count := map[string]int{}
	for i := range s.found {
		src := &s.found[i]
		if src.Label == "" {
			src.Label = src.Record.Identity.Model.Name
		}
		if src.Label == "" {
			src.Label = filepath.Base(src.Record.Dir)
		}
		count[src.Label]++
	}
	taken := map[string]bool{}
	for i := range s.found {
		src := &s.found[i]
		if count[src.Label] > 1 {
			src.Label += "@" + src.Record.ID[:record.ShortID]
		}
		for k := 2; taken[src.Label]; k++ { // two folders of one run
			src.Label = fmt.Sprintf("%s#%d", strings.TrimSuffix(src.Label, fmt.Sprintf("#%d", k-1)), k)
		}
		taken[src.Label] = true
	}
}

// Labels lists the labels of sources in their order.
func Labels(s []Source) []string {
	out := make([]string, len(s))
	for i := range s {
		out[i] = s[i].Label
	}
	return slices.Clip(out)
}
