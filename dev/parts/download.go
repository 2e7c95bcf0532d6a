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
	"sync"
	"sync/atomic"
	"time"
)

// limits bound downloads.
type limits struct {
	// dial, handshake and header are the longest times until a connection, TLS and the
	// first byte.
	dial, handshake, header time.Duration
	// A download that receives fewer than bytes in a window is given up, and so is one
	// that, at the speed of the window, would not end within rest.
	window, rest time.Duration
	bytes        int64
	// size is the largest file.
	size int64
}

// defaultLimits give up what takes longer than compiling does on most machines.
var defaultLimits = limits{
	dial: 3 * time.Second, handshake: 5 * time.Second, header: 10 * time.Second,
	window: 15 * time.Second, rest: 5 * time.Minute, bytes: 1 << 20, size: 600 << 20,
}

// tooSlow returns an error if a download that has received some bytes in a window must be
// given up. left is what is missing; it is negative if that is unknown.
func (l limits) tooSlow(received, left int64) error {
	speed := float64(received) / l.window.Seconds()
	if received < l.bytes || float64(left) > speed*l.rest.Seconds() {
		return fmt.Errorf("too slow: %.1f KiB/s", speed/1024)
	}
	return nil
}

// unreachableError means that a host cannot be used, with whatever file.
type unreachableError struct {
	host string
	err  error
}

func (e *unreachableError) Error() string { return fmt.Sprintf("%s: %v", e.short(), e.err) }

// short is the message without the cause, which is printed once for each host.
func (e *unreachableError) short() string { return e.host + " cannot be reached" }

func (e *unreachableError) Unwrap() error { return e.err }

// errAgain means that one more attempt may help.
var errAgain = errors.New("the download ended early")

// downloader fetches published files.
type downloader struct {
	client *http.Client
	// mirror, if set, is the address before the host of every file.
	mirror string
	limits limits
	hosts  *hosts
	// received counts the bytes of all downloads, and total the expected ones.
	received, total atomic.Int64
}

func newDownloader(mirror string, l limits) *downloader {
	transport := &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: l.dial}).DialContext,
		TLSHandshakeTimeout:   l.handshake,
		ResponseHeaderTimeout: l.header,
		ForceAttemptHTTP2:     true,
	}
	//nolint:gosec // The address of a mirror is from the user, who may read any file.
	transport.RegisterProtocol("file", http.NewFileTransport(http.Dir("/")))
	d := &downloader{mirror: strings.TrimSuffix(mirror, "/"), limits: l, hosts: &hosts{errs: map[string]error{}}}
	d.client = &http.Client{Transport: transport, CheckRedirect: func(request *http.Request, via []*http.Request) error {
		if err := onlyHTTPS(request, via); err != nil {
			return err
		}
		return d.hosts.known(request.URL)
	}}
	return d
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

// redirectError means that a redirect is not followed. The host can be reached.
type redirectError struct{ message string }

func (e *redirectError) Error() string { return e.message }

// onlyHTTPS refuses to leave HTTPS.
func onlyHTTPS(request *http.Request, via []*http.Request) error {
	if len(via) > 10 {
		return &redirectError{"too many redirects"}
	}
	if via[0].URL.Scheme == "https" && request.URL.Scheme != "https" {
		return &redirectError{fmt.Sprintf("%s redirects to %s, which is not HTTPS", via[0].URL, request.URL)}
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

// fetch writes the file at an address to w. A download that fails or ends early is repeated
// once, unless a second attempt would fail in the same way.
func (d *downloader) fetch(ctx context.Context, file string, w io.WriteSeeker) error {
	err := d.attempt(ctx, file, w)
	if _, failed := errors.AsType[*requestError](err); failed || errors.Is(err, errAgain) {
		if _, err := w.Seek(0, io.SeekStart); err != nil {
			return fmt.Errorf("repeating a download: %w", err)
		}
		err = d.attempt(ctx, file, w)
	}
	if problem, failed := errors.AsType[*requestError](err); failed {
		return d.hosts.failed(problem.address, problem.err)
	}
	return err
}

// requestError means that a host has not answered a request.
type requestError struct {
	address *url.URL
	err     error
}

func (e *requestError) Error() string { return e.err.Error() }

func (e *requestError) Unwrap() error { return e.err }

// noConnection reports whether a connection timed out: the host, or the way to it, drops
// packets, and a second attempt would cost as much.
func noConnection(err error) bool {
	dial, is := errors.AsType[*net.OpError](err)
	return is && dial.Op == "dial" && dial.Timeout()
}

func (d *downloader) attempt(ctx context.Context, file string, w io.Writer) (err error) {
	address := d.address(file)
	parsed, err := url.Parse(address)
	if err != nil {
		return fmt.Errorf("reading the address of a release: %w", err)
	}
	if err := d.hosts.known(parsed); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return fmt.Errorf("reading the address of a release: %w", err)
	}
	response, err := d.client.Do(request)
	if err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return d.unanswered(parsed, err)
	}
	defer response.Body.Close()
	switch {
	case response.StatusCode >= http.StatusInternalServerError:
		return fmt.Errorf("%s: %s: %w", address, response.Status, errAgain)
	case response.StatusCode != http.StatusOK:
		return fmt.Errorf("%s: %s", address, response.Status)
	case response.ContentLength > d.limits.size:
		return fmt.Errorf("%s has %d bytes, more than %d", address, response.ContentLength, d.limits.size)
	}
	d.total.Add(max(response.ContentLength, 0))
	body := &counted{reader: io.LimitReader(response.Body, d.limits.size+1), all: &d.received}
	defer d.watch(ctx, cancel, body, response.ContentLength)()
	size, err := io.Copy(w, body)
	switch {
	case context.Cause(ctx) != nil:
		return fmt.Errorf("%s: %w", address, context.Cause(ctx))
	case err != nil || response.ContentLength >= 0 && size < response.ContentLength:
		return fmt.Errorf("%s: %d of %d bytes: %w", address, size, response.ContentLength, errAgain)
	case size > d.limits.size:
		return fmt.Errorf("%s has more than %d bytes", address, d.limits.size)
	}
	return nil
}

// unanswered returns the error of a request that got no answer. After a redirect, another
// host may be the one that failed.
func (d *downloader) unanswered(address *url.URL, err error) error {
	if known, is := errors.AsType[*unreachableError](err); is {
		return known
	}
	if refused, is := errors.AsType[*redirectError](err); is {
		return refused
	}
	if problem, is := errors.AsType[*url.Error](err); is {
		err = problem.Err
		if failed, err := url.Parse(problem.URL); err == nil {
			address = failed
		}
	}
	if noConnection(err) {
		return d.hosts.failed(address, err)
	}
	return &requestError{address, err}
}

// watch cancels a download that is too slow. size is negative if it is unknown.
func (d *downloader) watch(ctx context.Context, cancel context.CancelCauseFunc, body *counted, size int64) (stop func()) {
	ticker := time.NewTicker(d.limits.window)
	done := make(chan struct{})
	go func() {
		defer ticker.Stop()
		last := int64(0)
		for {
			select {
			case <-done:
				return
			case <-ctx.Done():
				return
			case <-ticker.C:
				now := body.own.Load()
				if err := d.limits.tooSlow(now-last, size-now); err != nil {
					cancel(err)
					return
				}
				last = now
			}
		}
	}()
	return func() { close(done) }
}

// counted counts the bytes that are read.
type counted struct {
	reader io.Reader
	own    atomic.Int64
	all    *atomic.Int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.reader.Read(p)
	c.own.Add(int64(n))
	c.all.Add(int64(n))
	return n, err
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

// downloads runs functions, a few at a time.
func downloads(count, parallel int, do func(i int)) {
	var group sync.WaitGroup
	slots := make(chan struct{}, parallel)
	for i := range count {
		group.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			do(i)
		})
	}
	group.Wait()
}
