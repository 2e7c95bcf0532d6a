package main

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

// maxProgram is the largest program in an archive.
const maxProgram = 400 << 20

// obtained is the outcome of a download.
type obtained struct {
	// path is the program in the cache, or "" if it must be compiled.
	path string
	// proof is how the download was verified.
	proof string
	took  time.Duration
	// reason is why it must be compiled.
	reason string
}

// obtain downloads the release of a program into the cache.
func (s store) obtain(ctx context.Context, p pinned) obtained {
	started := time.Now()
	path, proof, err := s.download(ctx, p)
	if err == nil {
		return obtained{path: path, proof: proof, took: time.Since(started)}
	}
	return obtained{reason: err.Error()}
}

// download downloads, verifies and unpacks a release, and checks that it runs.
func (s store) download(ctx context.Context, p pinned) (path, proof string, err error) {
	r := releases[p.name].fill(p.version, s.goos, s.goarch)
	want, err := s.expected(p)
	if err != nil {
		return "", "", err
	}
	if want == "" && r.signed == nil {
		return "", "", errors.New("its checksum is not in dev/parts/releases.sum, and the release is not signed")
	}
	file, remove, err := temporary(s.cache)
	if err != nil {
		return "", "", err
	}
	defer remove()
	if err := s.net.fetch(ctx, r.url, file); err != nil {
		return "", "", err
	}
	sum, text, err := sumOf(file)
	if err != nil {
		return "", "", err
	}
	if want != "" {
		if text != want {
			return "", "", fmt.Errorf("%s has the checksum %s instead of %s", s.net.address(r.url), text, want)
		}
		proof = "checksum verified"
	} else {
		if err := s.authenticate(ctx, r, sum, text); err != nil {
			return "", "", err
		}
		proof = "signature of " + r.signed.identity + " verified"
	}
	if path, err = s.install(ctx, p, r, file, text); err != nil {
		return "", "", err
	}
	if want == "" {
		return path, proof, s.remember(p, text)
	}
	return path, proof, nil
}

// authenticate verifies the signature of a file, or that of its checksum file.
func (s store) authenticate(ctx context.Context, r release, sum [sha256.Size]byte, text string) error {
	signed := r.url
	if r.sums != "" {
		listed, err := s.net.text(ctx, r.sums)
		if err != nil {
			return err
		}
		want, err := checksumOf(string(listed), r.file())
		if err != nil {
			return err
		}
		if text != want {
			return fmt.Errorf("%s has the checksum %s instead of %s, which %s lists", s.net.address(r.url), text, want, r.sums)
		}
		signed, sum = r.sums, sha256.Sum256(listed)
	}
	signatureText, err := s.net.text(ctx, signed+r.signed.signature)
	if err != nil {
		return err
	}
	certificateText, err := s.net.text(ctx, signed+r.signed.certificate)
	if err != nil {
		return err
	}
	if err := s.authority.verify(r.signed, sum, signatureText, certificateText); err != nil {
		return fmt.Errorf("%s: %w", s.net.address(signed), err)
	}
	return nil
}

// install writes the program of a verified download into the cache.
func (s store) install(ctx context.Context, p pinned, r release, file *os.File, sum string) (string, error) {
	target := s.released(p, sum)
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return "", fmt.Errorf("creating the cache of %s: %w", p.name, err)
	}
	partial, err := os.CreateTemp(filepath.Dir(target), p.name+".partial-*")
	if err != nil {
		return "", fmt.Errorf("creating the cache of %s: %w", p.name, err)
	}
	defer os.Remove(partial.Name())
	err = unpack(file, r, partial)
	if err := errors.Join(err, partial.Chmod(0o755), partial.Close()); err != nil {
		return "", fmt.Errorf("unpacking %s: %w", r.file(), err)
	}
	prints, err := printsVersion(ctx, installTimeout, partial.Name(), p.versionArgs, p.version)
	if err != nil {
		return "", fmt.Errorf("the program of the release: %w", err)
	}
	if !prints {
		return "", fmt.Errorf("the program of the release does not run here, or does not print version %s", p.version)
	}
	if err := os.Rename(partial.Name(), target); err != nil {
		return "", fmt.Errorf("renaming %s: %w", p.name, err)
	}
	return target, nil
}

// unpack copies the program of a release.
func unpack(file *os.File, r release, to io.Writer) error {
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	switch {
	case r.member == "":
		return copyProgram(to, file)
	case strings.HasSuffix(r.url, ".zip"):
		return unzip(file, r.member, to)
	default:
		return untar(file, r.member, to)
	}
}

func untar(file *os.File, member string, to io.Writer) error {
	compressed, err := gzip.NewReader(file)
	if err != nil {
		return err
	}
	archive := tar.NewReader(compressed)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return fmt.Errorf("the archive does not contain %s", member)
		}
		if err != nil {
			return err
		}
		if strings.TrimPrefix(header.Name, "./") != member {
			continue
		}
		if header.Typeflag != tar.TypeReg {
			return fmt.Errorf("%s is not a regular file", member)
		}
		return copyProgram(to, archive)
	}
}

func unzip(file *os.File, member string, to io.Writer) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	archive, err := zip.NewReader(file, info.Size())
	if err != nil {
		return err
	}
	for _, entry := range archive.File {
		if entry.Name != member {
			continue
		}
		if !entry.Mode().IsRegular() {
			return fmt.Errorf("%s is not a regular file", member)
		}
		content, err := entry.Open()
		if err != nil {
			return err
		}
		return errors.Join(copyProgram(to, content), content.Close())
	}
	return fmt.Errorf("the archive does not contain %s", member)
}

func copyProgram(to io.Writer, from io.Reader) error {
	size, err := io.Copy(to, io.LimitReader(from, maxProgram+1))
	if err == nil && size > maxProgram {
		return fmt.Errorf("it has more than %d bytes", maxProgram)
	}
	return err
}

// obtainAll downloads what is missing, a few programs at a time, and returns the
// outcome for each.
func (s store) obtainAll(ctx context.Context, progress io.Writer, missing []pinned) map[string]obtained {
	outcomes := make([]obtained, len(missing))
	var chosen []int
	for i, p := range missing {
		switch r := releases[p.name]; {
		case s.net == nil:
		case r == nil:
			outcomes[i].reason = "its download is not in the catalogue"
		default:
			chosen = append(chosen, i)
		}
	}
	if len(chosen) > 0 {
		fmt.Fprintf(progress, "parts: downloading %d programs\n", len(chosen))
	}
	var group errgroup.Group
	group.SetLimit(4)
	for _, i := range chosen {
		group.Go(func() error {
			outcomes[i] = s.obtain(ctx, missing[i])
			return nil
		})
	}
	_ = group.Wait() // Each outcome has its own reason.
	byName := map[string]obtained{}
	for i, p := range missing {
		byName[p.name] = outcomes[i]
	}
	return byName
}

// removeAbandoned removes the downloads and incomplete programs of killed processes.
func (s store) removeAbandoned() {
	for _, pattern := range []string{"download-*", "*/*/*.partial*"} {
		files, _ := filepath.Glob(filepath.Join(s.cache, filepath.FromSlash(pattern)))
		for _, file := range files {
			if info, err := os.Stat(file); err == nil && time.Since(info.ModTime()) > time.Hour {
				_ = os.Remove(file)
			}
		}
	}
}
