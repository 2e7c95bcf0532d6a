package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	// downloadTimeout is how long a download may take. Compiling takes about as long on most
	// machines.
	downloadTimeout = 5 * time.Minute
	// maxDownload is the largest file.
	maxDownload = 600 << 20
)

// downloader fetches published files.
type downloader struct {
	client *http.Client
	// mirror, if set, is the address before the host of every file.
	mirror string
}

func newDownloader(mirror string) *downloader {
	// A host that cannot be reached costs seconds.
	transport := &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: 3 * time.Second}).DialContext,
		TLSHandshakeTimeout:   5 * time.Second,
		ResponseHeaderTimeout: 10 * time.Second,
		ForceAttemptHTTP2:     true,
	}
	//nolint:gosec // The address of a mirror is from the user, who may read any file.
	transport.RegisterProtocol("file", http.NewFileTransport(http.Dir("/")))
	client := &http.Client{Transport: transport, CheckRedirect: onlyHTTPS, Timeout: downloadTimeout}
	return &downloader{mirror: strings.TrimSuffix(mirror, "/"), client: client}
}

// checkMirror returns an error for an address that is not that of a mirror.
func checkMirror(mirror string) error {
	address, err := url.Parse(mirror)
	switch {
	case mirror == "":
		return nil
	case err == nil && slices.Contains([]string{"http", "https"}, address.Scheme) && address.Host != "":
		return nil
	case err == nil && address.Scheme == "file" && address.Host == "" && filepath.IsAbs(address.Path):
		return nil
	}
	return fmt.Errorf("CAPT_PARTS_MIRROR=%s is not supported: use https://HOST/PATH, http://HOST/PATH or file:///PATH", mirror)
}

// onlyHTTPS refuses to leave HTTPS.
func onlyHTTPS(request *http.Request, via []*http.Request) error {
	if len(via) > 10 {
		return errors.New("too many redirects")
	}
	if via[0].URL.Scheme == "https" && request.URL.Scheme != "https" {
		return fmt.Errorf("%s redirects to %s, which is not HTTPS", via[0].URL, request.URL)
	}
	return nil
}

// address returns the address of a file, on the mirror if there is one.
func (d *downloader) address(file string) string {
	if d.mirror == "" {
		return file
	}
	_, rest, _ := strings.Cut(file, "://")
	return d.mirror + "/" + rest
}

// fetch writes the file at an address to w. A download that fails is repeated once, unless
// there is no such file or the time is over.
func (d *downloader) fetch(ctx context.Context, file string, w io.WriteSeeker) error {
	again, err := d.attempt(ctx, file, w)
	late, isNet := errors.AsType[net.Error](err)
	if err == nil || !again || isNet && late.Timeout() || ctx.Err() != nil {
		return err
	}
	if _, err := w.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("repeating a download: %w", err)
	}
	_, err = d.attempt(ctx, file, w)
	return err
}

// attempt reports whether another attempt may help.
func (d *downloader) attempt(ctx context.Context, file string, w io.Writer) (again bool, err error) {
	address := d.address(file)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return false, fmt.Errorf("reading the address of a release: %w", err)
	}
	response, err := d.client.Do(request)
	if err != nil {
		return true, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return response.StatusCode >= http.StatusInternalServerError, fmt.Errorf("%s: %s", address, response.Status)
	}
	size, err := io.Copy(w, io.LimitReader(response.Body, maxDownload+1))
	switch {
	case err != nil:
		return true, fmt.Errorf("%s: %w", address, err)
	case size > maxDownload:
		return false, fmt.Errorf("%s has more than %d bytes", address, maxDownload)
	}
	return false, nil
}

// text fetches a small file.
func (d *downloader) text(ctx context.Context, file string) ([]byte, error) {
	buffer, remove, err := temporary("")
	if err != nil {
		return nil, err
	}
	defer remove()
	if err := d.fetch(ctx, file, buffer); err != nil {
		return nil, err
	}
	info, err := buffer.Stat()
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", file, err)
	}
	if info.Size() > 1<<20 {
		return nil, fmt.Errorf("%s is too large", file)
	}
	return os.ReadFile(buffer.Name())
}

// temporary returns a file that is removed by the caller.
func temporary(dir string) (*os.File, func(), error) {
	file, err := os.CreateTemp(dir, "download-*")
	if err != nil {
		return nil, nil, fmt.Errorf("creating a file: %w", err)
	}
	return file, func() {
		_ = file.Close()
		_ = os.Remove(file.Name())
	}, nil
}

// sumOf returns the SHA-256 sum of a file.
func sumOf(file *os.File) (sum [sha256.Size]byte, text string, err error) {
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return sum, "", fmt.Errorf("reading a download: %w", err)
	}
	digest := sha256.New()
	if _, err := io.Copy(digest, file); err != nil {
		return sum, "", fmt.Errorf("reading a download: %w", err)
	}
	digest.Sum(sum[:0])
	return sum, hex.EncodeToString(sum[:]), nil
}
