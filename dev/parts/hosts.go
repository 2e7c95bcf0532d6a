package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// hostMemory is how long a host that cannot be reached is not tried again, also by the
// following calls of one make.
const hostMemory = 10 * time.Minute

// hosts remembers the hosts that cannot be reached in a file.
type hosts struct {
	mutex sync.Mutex
	file  string
	// proxy returns the proxy of a request.
	proxy func(*http.Request) (*url.URL, error)
	// byRoute are the failures by host, proxy and certificates: if the user changes one of
	// them, the host is tried again.
	byRoute map[string]failure
	// fresh are the routes that failed in this process, and met are the others that were needed.
	fresh, met map[string]bool
}

// failure is the last failure of a host.
type failure struct {
	Host  string    `json:"host"`
	Time  time.Time `json:"time"`
	Error string    `json:"error"`
}

func newHosts(file string, proxy func(*http.Request) (*url.URL, error)) *hosts {
	h := &hosts{file: file, proxy: proxy, byRoute: map[string]failure{}, fresh: map[string]bool{}, met: map[string]bool{}}
	if text, err := os.ReadFile(file); err == nil {
		// A damaged file costs only another attempt.
		_ = json.Unmarshal(text, &h.byRoute)
	}
	maps.DeleteFunc(h.byRoute, func(_ string, f failure) bool { return f.Host == "" || time.Since(f.Time) > hostMemory })
	return h
}

// route returns what decides whether a host can be reached.
func (h *hosts) route(address *url.URL) string {
	words := []string{address.Host}
	if proxy, err := h.proxy(&http.Request{URL: address}); err == nil && proxy != nil {
		words = append(words, "proxy="+proxy.Redacted())
	}
	for _, name := range []string{"SSL_CERT_FILE", "SSL_CERT_DIR"} {
		if value := os.Getenv(name); value != "" {
			words = append(words, name+"="+value)
		}
	}
	return strings.Join(words, " ")
}

// known returns an error if the host of an address is known to be unreachable.
func (h *hosts) known(address *url.URL) error {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	route := h.route(address)
	if f, found := h.byRoute[route]; found {
		h.met[route] = true
		return &unreachableError{f.Host, errors.New(f.Error)}
	}
	return nil
}

// failed records that the host of an address cannot be reached.
func (h *hosts) failed(address *url.URL, err error) error {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if route := h.route(address); h.byRoute[route].Host == "" {
		h.byRoute[route], h.fresh[route] = failure{Host: address.Host, Time: time.Now(), Error: err.Error()}, true
		if text, err := json.Marshal(h.byRoute); err == nil {
			// Without the file, the next call tries the host again.
			_ = os.WriteFile(h.file, text, 0o600)
		}
	}
	return &unreachableError{address.Host, err}
}

// report prints one line for each host that could not be reached, now or before, with the cause.
func (h *hosts) report(w io.Writer) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	for _, route := range slices.Sorted(maps.Keys(h.byRoute)) {
		switch f := h.byRoute[route]; {
		case h.fresh[route]:
			fmt.Fprintf(w, "parts: %s cannot be reached (%s): its programs are compiled\n", f.Host, f.Error)
		case h.met[route]:
			fmt.Fprintf(w, "parts: %s could not be reached at %s (%s): it is tried again after %s, or if you remove %s\n",
				f.Host, f.Time.Format(time.TimeOnly), f.Error, f.Time.Add(hostMemory).Format(time.TimeOnly), h.file)
		}
	}
}
