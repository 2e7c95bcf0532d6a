package main

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestProvide_givesUpOnSlowServer(t *testing.T) {
	p := newPublisher(t, release{url: "https://example.com/tool"}, "")
	p.store.net.limits.bytes, p.store.net.limits.window = 1<<10, 200*time.Millisecond
	p.serve("https://example.com/tool", func(w http.ResponseWriter, request *http.Request) {
		w.Header().Set("Content-Length", "100000")
		for request.Context().Err() == nil {
			fmt.Fprint(w, "x")
			w.(http.Flusher).Flush()
			select {
			case <-request.Context().Done():
			case <-time.After(10 * time.Millisecond):
			}
		}
	})
	p.pin(program)
	p.expect("building: ", "too slow: ")(compiled)
	if len(p.requests) != 1 {
		t.Errorf("requests: %q", p.requests)
	}
}

// A download that is fast enough for now must not take hours.
func TestProvide_givesUpOnWhatWouldTakeTooLong(t *testing.T) {
	p := newPublisher(t, release{url: "https://example.com/tool"}, "")
	p.store.net.limits.rest, p.store.net.limits.window = time.Second, 200*time.Millisecond
	p.serve("https://example.com/tool", func(w http.ResponseWriter, request *http.Request) {
		w.Header().Set("Content-Length", "1000000")
		for request.Context().Err() == nil {
			fmt.Fprint(w, "x")
			w.(http.Flusher).Flush()
			select {
			case <-request.Context().Done():
			case <-time.After(10 * time.Millisecond):
			}
		}
	})
	p.pin(program)
	p.expect("building: ", "too slow: ")(compiled)
}

func TestDefaultLimits_areMinutes(t *testing.T) {
	const mega = 1 << 20
	window := int64(defaultLimits.window.Seconds())
	for _, tt := range []struct {
		what           string
		received, left int64
		tooSlow        bool
	}{
		{"nothing arrives", 0, mega, true},
		{"64 KiB in a window", 64 << 10, mega, true},
		{"less than 1 MiB in a window", mega - 1, mega, true},
		{"1 MiB in a window, almost done", mega, mega, false},
		{"1 MiB in a window, of a file of unknown size", mega, -mega, false},
		{"100 MiB at 100 KiB/s: 17 minutes", window * 100 << 10, 100 * mega, true},
		{"100 MiB at 300 KiB/s: almost 6 minutes", window * 300 << 10, 100 * mega, true},
		{"100 MiB at 400 KiB/s: more than 4 minutes", window * 400 << 10, 100 * mega, false},
		{"100 MiB at 10 MiB/s", window * 10 * mega, 100 * mega, false},
	} {
		if err := defaultLimits.tooSlow(tt.received, tt.left); (err != nil) != tt.tooSlow {
			t.Errorf("%s: %v", tt.what, err)
		}
	}
	if seconds := defaultLimits.dial + defaultLimits.handshake + defaultLimits.header; seconds > 20*time.Second {
		t.Errorf("a host that cannot be reached costs %s", seconds)
	}
}

// silentServer returns an address that accepts connections and never answers.
func silentServer(t *testing.T) string {
	t.Helper()
	silent, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { silent.Close() })
	return "http://" + silent.Addr().String()
}

// addSecond adds a second program of the same publisher, and returns both.
func (p *publisher) addSecond() []part {
	p.t.Helper()
	second := p.part
	second.name = "stand-in-2"
	releases[second.name] = &release{url: "https://example.com/tool-2"}
	p.t.Cleanup(func() { delete(releases, second.name) })
	p.pin(program)
	p.store.sums[checksumKey(second.name, "v1.3.2", p.store.goos, p.store.goarch)] = sumText(program)
	return []part{p.part, second}
}

// provideAll provides programs as a new process does, and returns the progress.
func (p *publisher) provideAll(mirror string, parts []part) string {
	p.t.Helper()
	for _, part := range parts {
		if err := os.RemoveAll(filepath.Join(p.store.cache, part.name)); err != nil {
			p.t.Fatal(err)
		}
	}
	p.store.net = newDownloader(mirror, p.store.net.limits)
	var log bytes.Buffer
	if err := p.store.provide(p.t.Context(), &log, parts, ""); err != nil {
		p.t.Fatalf("%v\n%s", err, &log)
	}
	return log.String()
}

// A host that cannot be reached is named once with the cause. Each of its programs has only a
// short reason.
func TestProvide_saysOnceThatAHostIsUnreachable(t *testing.T) {
	closed := httptest.NewServer(nil)
	closed.Close()
	for name, tt := range map[string]struct{ address, cause string }{
		"closed": {closed.URL, "connection refused"},
		"silent": {silentServer(t), "timeout awaiting response headers"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPublisher(t, release{url: "https://example.com/tool"}, program)
			p.store.net.limits.header = 100 * time.Millisecond
			both := p.addSecond()
			host := strings.TrimPrefix(tt.address, "http://")
			first := p.provideAll(tt.address, both)
			if strings.Count(first, tt.cause) != 1 || strings.Count(first, "its programs are compiled") != 1 {
				t.Errorf("the cause is not printed once:\n%s", first)
			}
			if strings.Count(first, "v1.3.2: building: "+host+" cannot be reached\n") != 2 {
				t.Errorf("the programs do not have a short reason:\n%s", first)
			}
		})
	}
}

// Hosts of releases redirect to others.
func TestProvide_blamesTheHostAfterARedirect(t *testing.T) {
	closed := httptest.NewServer(nil)
	closed.Close()
	host := strings.TrimPrefix(closed.URL, "http://")
	p := newPublisher(t, release{url: "https://example.com/tool"}, "")
	both := p.addSecond()
	for _, file := range []string{"tool", "tool-2"} {
		p.serve("https://example.com/"+file, http.RedirectHandler(closed.URL, http.StatusFound).ServeHTTP)
	}
	progress := p.provideAll(p.server.URL, both)
	if strings.Count(progress, "v1.3.2: building: "+host+" cannot be reached\n") != 2 {
		t.Errorf("%s is not blamed:\n%s", host, progress)
	}
	if strings.Contains(progress, strings.TrimPrefix(p.server.URL, "http://")) {
		t.Errorf("the host that redirects is blamed:\n%s", progress)
	}
}
