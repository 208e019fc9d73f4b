package artifact

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Unzip appends the file member of the wheel or zip file at path to w. The
// caller checks the digest of what it wrote.
func (s *Store) Unzip(ctx context.Context, path, member string, w io.Writer) error {
	step := "read " + member + " from " + path
	z, err := zip.OpenReader(path)
	if err != nil {
		return s.ioError(step, err)
	}
	defer z.Close()
	f, err := z.Open(member)
	if err != nil {
		return s.ioError(step, err)
	}
	defer f.Close()
	_, err = io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{&meter{ctx: ctx, r: f}}, make([]byte, 1<<20))
	return s.ioError(step, err)
}

// untarLimit is the most bytes a tarball may unpack to: the largest pinned one
// holds half of it.
const untarLimit = 2 << 30

// Untar unpacks regular files of the gzipped tarball at path into dir. place
// says under which name below dir a member is put; "" leaves it out. Links and
// special files are left out, and files are made executable where they were.
func (s *Store) Untar(ctx context.Context, path, dir string, place func(member string) string) error {
	step := "unpack " + path
	f, err := os.Open(path)
	if err != nil {
		return s.ioError(step, err)
	}
	defer f.Close()
	z, err := gzip.NewReader(&meter{ctx: ctx, r: f})
	if err != nil {
		return s.ioError(step, err)
	}
	var total int64
	for members := tar.NewReader(z); ; {
		head, err := members.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return s.ioError(step, err)
		}
		if head.Typeflag != tar.TypeReg {
			continue
		}
		name := place(head.Name)
		if name == "" {
			continue
		}
		if !filepath.IsLocal(name) {
			return s.ioError(step, fmt.Errorf("the member %q leads out of the folder", head.Name))
		}
		if total += head.Size; total > untarLimit {
			return s.ioError(step, fmt.Errorf("it holds more than %d bytes", int64(untarLimit)))
		}
		if err := writeMember(filepath.Join(dir, name), members, head.FileInfo().Mode()); err != nil {
			return s.ioError(step, err)
		}
	}
}

func writeMember(path string, r io.Reader, mode fs.FileMode) (err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	perm := fs.FileMode(0o644)
	if mode&0o100 != 0 {
		perm = 0o755
	}
	out, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, perm)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	_, err = io.Copy(out, r)
	return err
}
