package record

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// manifest is manifest.json.
type manifest struct {
	Format     int             `json:"format"`
	ID         string          `json:"id"`
	Identity   json.RawMessage `json:"identity"`
	Results    *Results        `json:"results,omitempty"` // absent until the run is sealed
	Provenance Provenance      `json:"provenance"`
}

// Results names the files that hold the results.
type Results struct {
	SHA256 string `json:"sha256"` // of the lines "digest  name" of Files
	Files  []File `json:"files"`  // by name
}

// File is one file of the results.
type File struct {
	Name   string `json:"name"`
	SHA256 string `json:"sha256"`
	Bytes  int64  `json:"bytes"`
	Rows   *int64 `json:"rows,omitempty"` // predictions, where it holds them
}

// newResults sums up files.
func newResults(files []File) *Results {
	slices.SortFunc(files, func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	r := &Results{Files: files}
	r.SHA256 = r.sum()
	return r
}

func (r *Results) sum() string {
	h := sha256.New()
	for _, f := range r.Files {
		fmt.Fprintf(h, "%s  %s\n", f.SHA256, f.Name)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// file returns the entry of a file, or nil.
func (r *Results) file(name string) *File {
	if r == nil {
		return nil
	}
	for i := range r.Files {
		if r.Files[i].Name == name {
			return &r.Files[i]
		}
	}
	return nil
}

// encode returns the manifest's file. The identity stays in canonical form
// within it but for white space.
func (m *manifest) encode() ([]byte, error) { return encodeFile("manifest", m) }

// encodeFile returns v as an indented JSON file; what names it in errors.
func encodeFile(what string, v any) ([]byte, error) {
	doc, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", what, err)
	}
	return append(doc, '\n'), nil
}

// maxManifest bounds what is read of a manifest, far above any real one.
const maxManifest = 256 << 20

// readManifest reads the manifest of a folder.
func readManifest(dir string) (*manifest, error) {
	f, err := os.Open(filepath.Join(dir, manifestName))
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(dir); err != nil {
			return nil, fmt.Errorf("%w: %s: no such folder", ErrNotRecord, dir)
		}
		return nil, fmt.Errorf("%w: %s holds no %s", ErrNotRecord, dir, manifestName)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotRecord, err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxManifest))
	if err != nil {
		return nil, fmt.Errorf("read manifest: %w", err)
	}
	m, err := parseManifest(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, manifestName), err)
	}
	return m, nil
}

// foldedLevels is how deep a manifest's keys are the format's own. Below stand
// names out of other tools' settings too, which may differ in case alone.
const foldedLevels = 2

// parseManifest reads a manifest of this format or an older one.
func parseManifest(data []byte) (*manifest, error) {
	var head struct {
		Format *int `json:"format"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	switch {
	case head.Format == nil || *head.Format < 1:
		return nil, fmt.Errorf("%w: no format number", ErrNotRecord)
	case *head.Format > Format:
		return nil, fmt.Errorf("%w: format %d, this program reads up to %d; use a newer one", ErrNewer, *head.Format, Format)
	}
	var m manifest
	if err := json.Unmarshal(data, &m); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if err := UniqueKeys(data, foldedLevels); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if len(m.Identity) == 0 {
		return nil, fmt.Errorf("%w: no identity", ErrDamaged)
	}
	if len(m.ID) != 2*sha256.Size || !isHex(m.ID) {
		return nil, fmt.Errorf("%w: %q is no id", ErrDamaged, m.ID)
	}
	return &m, nil
}

// checkID reports whether the manifest's id is that of its identity.
func (m *manifest) checkID() error {
	doc, err := Canonical(m.Identity)
	if err != nil {
		return fmt.Errorf("%w: identity: %w", ErrDamaged, err)
	}
	if id := digest(doc); id != m.ID {
		return fmt.Errorf("%w: the manifest's id is %s, its identity's is %s", ErrDamaged, short(m.ID), short(id))
	}
	return nil
}

// CheckSizes returns ErrDamaged where a file of the results is missing or has
// another size than the manifest says. It opens none of them.
func (r *Record) CheckSizes() error {
	if r.Results == nil {
		return nil
	}
	for _, f := range r.Results.Files {
		switch info, err := os.Stat(filepath.Join(r.Dir, filepath.Base(f.Name))); {
		case err != nil:
			return fmt.Errorf("%w: %w", ErrDamaged, err)
		case info.Size() != f.Bytes:
			return fmt.Errorf("%w: %s has %d bytes, the manifest says %d", ErrDamaged, filepath.Join(r.Dir, f.Name), info.Size(), f.Bytes)
		}
	}
	return nil
}
