package debian

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strconv"
	"strings"

	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"
)

// Deb is the content of a package's file.
type Deb struct {
	// Control is the control file, MD5Sums the checksums of the files.
	Control, MD5Sums []byte
	data             []byte
	compression      string
}

// Open reads a package's file.
func Open(name string) (*Deb, error) {
	content, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	d := &Deb{}
	err = readArchive(content, func(member string, body []byte) error {
		switch {
		case strings.HasPrefix(member, "control.tar"):
			return d.readControl(member, body)
		case strings.HasPrefix(member, "data.tar"):
			d.data, d.compression = body, path.Ext(member)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}
	if d.data == nil || d.Control == nil {
		return nil, fmt.Errorf("reading %s: not a Debian package", name)
	}
	return d, nil
}

func (d *Deb) readControl(member string, body []byte) error {
	return readTar(body, path.Ext(member), func(header *tar.Header, r io.Reader) error {
		var err error
		switch path.Clean(header.Name) {
		case "control":
			d.Control, err = io.ReadAll(r)
		case "md5sums":
			d.MD5Sums, err = io.ReadAll(r)
		}
		return err
	})
}

// Files calls use for each file of the package. Names have no leading slash.
func (d *Deb) Files(use func(header *tar.Header, r io.Reader) error) error {
	return readTar(d.data, d.compression, func(header *tar.Header, r io.Reader) error {
		if header.Name = strings.TrimPrefix(path.Clean("/"+header.Name), "/"); header.Name == "" {
			return nil
		}
		return use(header, r)
	})
}

func readTar(body []byte, compression string, use func(*tar.Header, io.Reader) error) error {
	var r io.Reader = bytes.NewReader(body)
	var err error
	switch compression {
	case ".xz":
		r, err = xz.NewReader(r)
	case ".gz":
		r, err = gzip.NewReader(r)
	case ".zst":
		var z *zstd.Decoder
		if z, err = zstd.NewReader(r); err == nil {
			defer z.Close()
		}
		r = z
	case ".tar":
	default:
		err = fmt.Errorf("unknown compression %q", compression)
	}
	if err != nil {
		return err
	}
	files := tar.NewReader(r)
	for {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := use(header, files); err != nil {
			return err
		}
	}
}

const (
	arMagic      = "!<arch>\n"
	arHeaderSize = 60
)

// readArchive reads an ar archive: a header of 60 bytes before each member, and members
// start at even offsets.
func readArchive(content []byte, use func(name string, body []byte) error) error {
	if !bytes.HasPrefix(content, []byte(arMagic)) {
		return errors.New("not an ar archive")
	}
	for rest := content[len(arMagic):]; len(rest) > 0; {
		if len(rest) < arHeaderSize {
			return io.ErrUnexpectedEOF
		}
		name := strings.TrimSuffix(strings.TrimSpace(string(rest[:16])), "/")
		size, err := strconv.Atoi(strings.TrimSpace(string(rest[48:58])))
		if err != nil {
			return fmt.Errorf("reading the size of %s: %w", name, err)
		}
		if rest = rest[arHeaderSize:]; size < 0 || size > len(rest) {
			return io.ErrUnexpectedEOF
		}
		if err := use(name, rest[:size]); err != nil {
			return err
		}
		rest = rest[min(size+size%2, len(rest)):]
	}
	return nil
}
