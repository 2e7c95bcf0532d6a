package main

import (
	"archive/tar"
	"cmp"
	"context"
	"crypto/x509"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

func TestProvide_downloadsAndVerifies(t *testing.T) {
	archive := tarGz(t, &tar.Header{Name: "d/README", Typeflag: tar.TypeReg}, &tar.Header{Name: "d/tool", Typeflag: tar.TypeReg})
	for name, tt := range map[string]struct {
		release release
		content string
	}{
		"a file":     {release{url: "https://example.com/VERSION/tool-OS-ARCH"}, program},
		"a tar.gz":   {release{url: "https://example.com/tool_NUMBER.tar.gz", member: "d/tool"}, archive},
		"a zip":      {release{url: "https://example.com/tool_NUMBER.zip", member: "d/tool"}, zipped(t)},
		"a checksum": {release{url: "https://example.com/tool", sums: "https://example.com/SUMS"}, program},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPublisher(t, tt.release, tt.content)
			p.serve(tt.release.fill("v1.3.2", runtime.GOOS, runtime.GOARCH).url, content(tt.content))
			p.pin(tt.content)
			p.expect("stand-in v1.3.2: downloaded in", "checksum verified")(published)
			requests := len(p.requests)
			p.expect()(published)
			if len(p.requests) != requests || requests != 1 {
				t.Errorf("requests: %q", p.requests)
			}
		})
	}
}

func TestProvide_compilesWhatIsNotInTheArchive(t *testing.T) {
	for name, header := range map[string]*tar.Header{
		"missing": {Name: "d/other", Typeflag: tar.TypeReg},
		"a link":  {Name: "d/tool", Typeflag: tar.TypeSymlink, Linkname: "/bin/sh"},
	} {
		t.Run(name, func(t *testing.T) {
			archive := tarGz(t, header)
			p := newPublisher(t, release{url: "https://example.com/tool.tar.gz", member: "d/tool"}, archive)
			p.pin(archive)
			p.expect("building: unpacking tool.tar.gz")(compiled)
			if left := p.left(); len(left) > 0 {
				t.Errorf("left: %q", left)
			}
		})
	}
}

// truncated answers with less than it announces.
func truncated(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Length", "1000")
	fmt.Fprint(w, program)
}

func TestProvide_compilesWhatCannotBeDownloaded(t *testing.T) {
	const changed, noProgram, oldProgram = program + "# changed\n", "not a program", "#!/bin/sh\necho v1.3.1\n"
	const doesNotRun = "does not run here, or does not print version v1.3.2"
	for name, tt := range map[string]struct {
		serve    http.HandlerFunc
		pinned   string
		timeout  time.Duration
		requests int
		reasons  []string
	}{
		"truncated":          {serve: truncated, requests: 2, reasons: []string{"unexpected EOF"}},
		"missing":            {serve: http.NotFound, requests: 1, reasons: []string{"404 Not Found"}},
		"with other content": {serve: content(changed), requests: 1, reasons: []string{sumText(program), sumText(changed), "/example.com/tool"}},
		"not a program":      {serve: content(noProgram), pinned: noProgram, requests: 1, reasons: []string{doesNotRun}},
		"of another version": {serve: content(oldProgram), pinned: oldProgram, requests: 1, reasons: []string{doesNotRun}},
		"on an absent host":  {requests: 0, reasons: []string{"connection refused"}},
		"on a slow host": {requests: 1, timeout: 2 * time.Second, reasons: []string{"Client.Timeout"}, serve: func(w http.ResponseWriter, request *http.Request) {
			truncated(w, request)
			w.(http.Flusher).Flush()
			<-request.Context().Done()
		}},
		"redirected for ever": {requests: 22, reasons: []string{"too many redirects"}, serve: func(w http.ResponseWriter, request *http.Request) {
			http.Redirect(w, request, request.URL.Path, http.StatusFound)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPublisher(t, release{url: "https://example.com/tool"}, "")
			p.serve("https://example.com/tool", tt.serve)
			if tt.serve == nil {
				p.server.Close()
			}
			if tt.timeout != 0 {
				p.store.net.client.Timeout = tt.timeout
			}
			p.pin(cmp.Or(tt.pinned, program))
			p.expect(append(tt.reasons, "building: ")...)(compiled)
			if left := p.left(); len(left) > 0 || len(p.requests) != tt.requests {
				t.Errorf("left: %q after %q", left, p.requests)
			}
		})
	}
}

func TestProvide_repeatsAFailedRequestOnce(t *testing.T) {
	for name, fail := range map[string]http.HandlerFunc{
		"a bad gateway": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) },
		"an early end":  truncated,
		"no answer": func(w http.ResponseWriter, _ *http.Request) {
			connection, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			_ = connection.Close()
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPublisher(t, release{url: "https://example.com/tool"}, "")
			p.serve("https://example.com/tool", func(w http.ResponseWriter, request *http.Request) {
				if len(p.requests) == 1 {
					fail(w, request)
					return
				}
				fmt.Fprint(w, program)
			})
			p.pin(program)
			p.expect("downloaded")(published)
			if len(p.requests) != 2 {
				t.Errorf("requests: %q", p.requests)
			}
		})
	}
}

func TestProvide_refusesUnpinnedUnsignedRelease(t *testing.T) {
	p := newPublisher(t, release{url: "https://example.com/tool", sums: "https://example.com/SUMS"}, program)
	p.serve("https://example.com/SUMS", content(sumText(program)+"  tool\n"))
	p.expect("building: its checksum is not in dev/parts/releases.sum, and the release is not signed")(compiled)
	if len(p.requests) != 0 {
		t.Errorf("requests: %q", p.requests)
	}
}

func TestProvide_verifiesSignatures(t *testing.T) {
	const sums = "https://example.com/SUMS"
	signed := &signature{signature: ".sig", certificate: ".pem", identity: "release@example.com", issuer: "https://issuer.example.com"}
	who := identity{email: signed.identity, issuer: signed.issuer, usage: x509.ExtKeyUsageCodeSigning}
	forger := who
	forger.email = "forger@example.com"
	listed := sumText("other") + "  tool.sbom\n" + sumText(program) + "  tool\n"
	for name, tt := range map[string]struct {
		sums    string
		who     identity
		content string
		want    string
	}{
		"the program":            {"", who, program, ""},
		"the checksums":          {listed, who, program, ""},
		"a forger":               {"", forger, program, "it is signed by"},
		"a forger of checksums":  {listed, forger, program, "it is signed by"},
		"another program":        {"", who, program + "# changed\n", "does not match"},
		"not what is listed":     {listed, who, program + "# changed\n", "which " + sums + " lists"},
		"not listed":             {sumText("other") + "  tool.sbom\n", who, program, "does not list tool"},
		"signature is not there": {"", who, program, "404"},
	} {
		t.Run(name, func(t *testing.T) {
			authority := newSigner(t)
			r := release{url: "https://example.com/tool", signed: signed}
			text, at := program, r.url
			if tt.sums != "" {
				r.sums, text, at = sums, tt.sums, sums
			}
			p := newPublisher(t, r, tt.content)
			p.store.authority = authority.authority()
			p.serve(sums, content(tt.sums))
			signatureText, certificateText := authority.sign(tt.who, text)
			p.serve(at+".sig", content(string(signatureText)))
			p.serve(at+".pem", content(string(certificateText)))
			if tt.want == "404" {
				delete(p.files, "/example.com/tool.sig")
			}
			if tt.want != "" {
				p.expect("building: ", tt.want)(compiled)
				if left := p.left(); len(left) > 0 {
					t.Errorf("left: %q", left)
				}
				return
			}
			p.expect("signature of release@example.com verified")(published)
			// From now on only this file counts.
			requests := len(p.requests)
			p.expect()(published)
			if len(p.requests) != requests {
				t.Errorf("the signature is verified again: %q", p.requests)
			}
			if err := os.RemoveAll(filepath.Join(p.store.cache, p.part.name)); err != nil {
				t.Fatal(err)
			}
			p.serve(r.url, content(program+"# signed again\n"))
			p.expect("instead of " + sumText(program))(compiled)
		})
	}
}

func TestConfigureDownloads(t *testing.T) {
	for _, tt := range []struct {
		mode         string
		reproducible bool
		downloads    bool
		problem      string
	}{
		{"", false, true, ""},
		{"build", false, false, ""},
		{"", true, false, ""},
		{"download", false, false, "use build"},
	} {
		s := store{cache: t.TempDir(), reproducible: tt.reproducible}
		err := s.configureDownloads(tt.mode, "https://mirror.example.com/capt/")
		if err == nil && len(s.sums) == 0 {
			t.Errorf("%+v: installed programs are not compared with the pinned checksums", tt)
		}
		if (s.net != nil) != tt.downloads || (err != nil) != (tt.problem != "") || err != nil && !strings.Contains(err.Error(), tt.problem) {
			t.Errorf("%+v: %v", tt, err)
		}
		if s.net == nil {
			continue
		}
		if got := s.net.address("https://dl.k8s.io/release/x"); got != "https://mirror.example.com/capt/dl.k8s.io/release/x" {
			t.Errorf("the mirror is asked for %s", got)
		}
	}
}

func TestConfigureDownloads_checksTheMirror(t *testing.T) {
	for mirror, valid := range map[string]bool{
		"": true, "https://mirror.example.com/capt": true, "http://127.0.0.1:8080": true, "file:///srv/mirror": true,
		"mirror.example.com/capt": false, "mirror.example.com:8080": false, "https:///capt": false, "/srv/mirror": false, "file://srv/mirror": false, "file:mirror": false, "ftp://mirror": false,
	} {
		s := store{cache: t.TempDir()}
		if err := s.configureDownloads("", mirror); (err == nil) != valid || err != nil && !strings.Contains(err.Error(), "CAPT_PARTS_MIRROR="+mirror) {
			t.Errorf("%q: %v", mirror, err)
		}
	}
}

// With CAPT_PARTS=build, and for images, a downloaded program in the cache is not used.
func TestFind_ignoresDownloadsIfProgramsAreBuilt(t *testing.T) {
	p := newPublisher(t, release{url: "https://example.com/tool"}, program)
	p.pin(program)
	p.expect("downloaded")(published)
	downloader := p.store.net
	p.store.net = nil
	p.expect("stand-in v1.3.2: building\n")(compiled)
	p.store.net, p.store.reproducible = downloader, true
	pin, err := p.store.pin(p.part)
	if err != nil {
		t.Fatal(err)
	}
	if got := find(t, p.store, pin); got != p.store.cached(pin) {
		t.Errorf("found %s", got)
	}
}

func TestProvide_usesAMirrorOfFiles(t *testing.T) {
	p := newPublisher(t, release{url: "https://example.com/d/tool"}, "")
	mirror := writeSource(t, map[string]string{"example.com/d/tool": program})
	p.store.net = newDownloader("file://" + mirror)
	p.pin(program)
	p.expect("downloaded")(published)
}

func TestObtain_leavesNothingWhenItIsCanceled(t *testing.T) {
	p := newPublisher(t, release{url: "https://example.com/tool"}, "")
	ctx, cancel := context.WithCancel(t.Context())
	p.serve("https://example.com/tool", func(w http.ResponseWriter, request *http.Request) {
		w.Header().Set("Content-Length", "1000")
		fmt.Fprint(w, "x")
		w.(http.Flusher).Flush()
		cancel()
		<-request.Context().Done()
	})
	p.pin(program)
	pin, err := p.store.pin(p.part)
	if err != nil {
		t.Fatal(err)
	}
	if outcome := p.store.obtain(ctx, pin); outcome.path != "" {
		t.Errorf("outcome: %+v", outcome)
	}
	if left := p.left(); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

func TestOnlyHTTPS_refusesToLeaveIt(t *testing.T) {
	request := func(address string) *http.Request { return httptest.NewRequest(http.MethodGet, address, nil) }
	for _, tt := range []struct {
		from, to string
		refused  bool
	}{
		{"https://a.example.com", "https://b.example.com", false},
		{"https://a.example.com", "http://b.example.com", true},
		{"http://mirror", "http://other", false},
	} {
		if err := onlyHTTPS(request(tt.to), []*http.Request{request(tt.from)}); (err != nil) != tt.refused {
			t.Errorf("%s to %s: %v", tt.from, tt.to, err)
		}
	}
}
