package flux

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// fetchTimeout limits the time of a download, and connectTimeout that of its
	// connection. It is one within the cluster.
	fetchTimeout   = 20 * time.Second
	connectTimeout = 5 * time.Second
	// retryInterval is how often a connection to a host is attempted that does not answer.
	retryInterval = 10 * time.Second
)

var (
	// ErrNotAllowed reports an artifact that is not where source-controller serves those of
	// its source. Users who can edit sources may also be able to edit their status.
	ErrNotAllowed = errors.New("the address of the artifact is not allowed")
	// ErrTooLarge reports an artifact that exceeds the limit.
	ErrTooLarge = errors.New("the artifact is too large")
)

// Fetcher downloads artifacts from source-controller.
type Fetcher struct {
	// Hosts are the hosts, with ports unless they are the default ones, at which
	// source-controller serves artifacts. Nothing is downloaded from others.
	Hosts []string
	// Limit is the size of the largest artifact.
	Limit int64

	mu sync.Mutex
	// failures are the hosts that did not answer.
	failures map[string]*failure
	// now returns the time. It is nil except in tests.
	now func() time.Time
}

// failure is the last error of a host, and when a download is attempted again.
type failure struct {
	err   error
	retry time.Time
}

// Fetch downloads the artifact of a source. It does not check the digest.
func (f *Fetcher) Fetch(ctx context.Context, kind string, key client.ObjectKey, artifact *Artifact) ([]byte, error) {
	if err := f.check(kind, key, artifact.URL); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, artifact.URL, nil)
	if err != nil {
		return nil, fmt.Errorf("downloading the artifact: %w", err)
	}
	response, err := f.do(request)
	if err != nil {
		return nil, fmt.Errorf("downloading the artifact: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("downloading the artifact: %s returned %s", artifact.URL, response.Status)
	}
	content, err := io.ReadAll(io.LimitReader(response.Body, f.Limit+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("downloading the artifact: %w", err)
	case int64(len(content)) > f.Limit:
		return nil, ErrTooLarge
	}
	return content, nil
}

// do sends a request. While a host does not answer, one caller at a time attempts it, and
// the others get its last error: a caller that waits for a timeout reconciles nothing else.
func (f *Fetcher) do(request *http.Request) (*http.Response, error) {
	host := request.URL.Host
	if err := f.lastError(host); err != nil {
		return nil, err
	}
	response, err := downloads.Do(request)
	f.mu.Lock()
	defer f.mu.Unlock()
	if err == nil {
		delete(f.failures, host)
		return response, nil
	}
	if f.failures == nil {
		f.failures = map[string]*failure{}
	}
	f.failures[host] = &failure{err, f.time().Add(retryInterval)}
	return nil, err
}

// lastError returns the last error of a host, or nil if the caller may attempt a download.
func (f *Fetcher) lastError(host string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	last := f.failures[host]
	if last == nil {
		return nil
	}
	if now := f.time(); !now.Before(last.retry) {
		last.retry = now.Add(fetchTimeout)
		return nil
	}
	return last.err
}

func (f *Fetcher) time() time.Time {
	if f.now != nil {
		return f.now()
	}
	return time.Now()
}

// downloads connects to source-controller directly. It follows no redirect, which could
// lead to another host.
var downloads = &http.Client{
	Transport: &http.Transport{
		DialContext:           (&net.Dialer{Timeout: connectTimeout}).DialContext,
		ResponseHeaderTimeout: fetchTimeout / 2, IdleConnTimeout: time.Minute,
	},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// check returns an error unless source-controller serves artifacts of the source at the
// address. Each source has a directory of its own.
func (f *Fetcher) check(kind string, key client.ObjectKey, address string) error {
	parsed, err := url.Parse(address)
	if err != nil || parsed.Scheme != "http" && parsed.Scheme != "https" || parsed.User != nil || parsed.RawQuery != "" {
		return fmt.Errorf("%w: %q is not an address of source-controller", ErrNotAllowed, address)
	}
	same := func(host string) bool { return normalized(host) == normalized(parsed.Host) }
	if !slices.ContainsFunc(f.Hosts, same) {
		return fmt.Errorf("%w: %s is not in the manager's list --artifact-hosts", ErrNotAllowed, parsed.Host)
	}
	directory := "/" + path.Join(strings.ToLower(kind), key.Namespace, key.Name) + "/"
	if path.Clean(parsed.Path) != parsed.Path || !strings.HasPrefix(parsed.Path, directory) {
		return fmt.Errorf("%w: %s is not below %s", ErrNotAllowed, parsed.Path, directory)
	}
	return nil
}

// normalized returns a host without the dot that ends an absolute name.
func normalized(host string) string {
	name, port, found := strings.Cut(strings.ToLower(host), ":")
	if name = strings.TrimSuffix(name, "."); found {
		return name + ":" + port
	}
	return name
}
