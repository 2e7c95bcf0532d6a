package debian

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path"
	"strings"
)

// Deb is the file of a package.
type Deb struct {
	// Control is the control file, MD5Sums the checksums of the files.
	Control, MD5Sums []byte
	path             string
}

// Open reads the control files of a package.
func Open(ctx context.Context, name string) (*Deb, error) {
	d := &Deb{path: name}
	err := d.read(ctx, "--ctrl-tarfile", func(header *tar.Header, r io.Reader) error {
		var err error
		switch header.Name {
		case "control":
			d.Control, err = io.ReadAll(r)
		case "md5sums":
			d.MD5Sums, err = io.ReadAll(r)
		}
		return err
	})
	return d, err
}

// Files calls use for each file of the package. Names have no leading slash.
func (d *Deb) Files(ctx context.Context, use func(header *tar.Header, r io.Reader) error) error {
	return d.read(ctx, "--fsys-tarfile", use)
}

// read calls use for each file of the tar archive that dpkg-deb writes.
func (d *Deb) read(ctx context.Context, option string, use func(*tar.Header, io.Reader) error) error {
	var failure bytes.Buffer
	cmd := exec.CommandContext(ctx, "dpkg-deb", option, d.path)
	cmd.Stderr = &failure
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("unpacking %s with dpkg-deb: %w: %s", d.path, err, strings.TrimSpace(failure.String()))
	}
	for files := tar.NewReader(bytes.NewReader(out)); ; {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading %s: %w", d.path, err)
		}
		if header.Name = strings.TrimPrefix(path.Clean("/"+header.Name), "/"); header.Name == "" {
			continue
		}
		if err := use(header, files); err != nil {
			return fmt.Errorf("reading %s: %w", d.path, err)
		}
	}
}
