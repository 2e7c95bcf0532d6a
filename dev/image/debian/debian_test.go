package debian

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

func TestSource_parsesWhatAptPrints(t *testing.T) {
	source := Source{Mirror: "http://deb.debian.org"}
	const list = "'http://deb.debian.org/debian/pool/g/git/git_2.47.3-0%2bdeb13u1_s390x.deb' git_1%3a2.47.3-0+deb13u1_s390x.deb 10 SHA256:aa\n" +
		"'http://deb.debian.org/debian-security/pool/c/certs_2025%7e1_all.deb' certs_2025~1_all.deb 20 SHA256:bb\n"
	packages, err := source.parse(list)
	want := []Package{
		{Name: "certs", Version: "2025~1", Archive: "debian-security", Path: "pool/c/certs_2025~1_all.deb", Size: 20, SHA256: "bb"},
		{Name: "git", Version: "1:2.47.3-0+deb13u1", Archive: "debian", Path: "pool/g/git/git_2.47.3-0+deb13u1_s390x.deb", Size: 10, SHA256: "aa"},
	}
	if err != nil || !slices.Equal(packages, want) {
		t.Errorf("got %+v, %v", packages, err)
	}
	lock := Lock{Release: "13", Date: time.Date(2026, 11, 13, 21, 16, 50, 0, time.UTC), Packages: map[string][]Package{"s390x": packages}}
	var text bytes.Buffer
	if err := lock.Write(&text); err != nil {
		t.Fatal(err)
	}
	read, err := ReadLock(&text)
	if err != nil || !slices.Equal(read.Packages["s390x"], packages) || !read.Date.Equal(lock.Date) || read.Release != "13" {
		t.Errorf("the lock was read as %+v (%v)", read, err)
	}
	for _, line := range []string{
		"'http://deb.debian.org/debian/a.deb' a_1_all.deb 10 MD5Sum:aa\n", "'http://deb.debian.org/debian/a.deb' a_1_all.deb 10 \n",
		"'http://elsewhere.example.com/debian/a.deb' a_1_all.deb 10 SHA256:aa\n",
	} {
		if _, err := source.parse(line); err == nil {
			t.Errorf("%q was accepted", line)
		}
	}
}

func TestNewestRelease_readsTheDateOfEverySuite(t *testing.T) {
	dir := t.TempDir()
	for name, date := range map[string]string{"debian": "Sat, 14 Nov 2026 09:42:13 UTC", "debian-security": "Mon, 16 Nov 2026 21:22:54 UTC"} {
		text := "-----BEGIN PGP SIGNED MESSAGE-----\n\nOrigin: Debian\nDate: " + date + "\nAcquire-By-Hash: yes\n"
		if err := os.WriteFile(filepath.Join(dir, name+"_InRelease"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if newest, err := newestRelease(dir); err != nil || !newest.Equal(time.Date(2026, 11, 16, 21, 22, 54, 0, time.UTC)) {
		t.Errorf("got %s, %v", newest, err)
	}
}

func TestFetch_returnsOnlyThePinnedFile(t *testing.T) {
	content := []byte("package")
	p := Package{Name: "git", Archive: "debian", Path: "pool/git.deb", SHA256: checksum(content)}
	date := time.Date(2026, 11, 13, 21, 0, 0, 0, time.UTC)
	const onMirror, inSnapshot = "/debian/pool/git.deb", "/snapshots/debian/20261114T210000Z/pool/git.deb"
	for name, test := range map[string]struct {
		files map[string]string
		fails bool
	}{
		"on the mirror":             {files: map[string]string{onMirror: "package"}},
		"only in a snapshot":        {files: map[string]string{inSnapshot: "package"}},
		"changed on the mirror":     {files: map[string]string{onMirror: "other", inSnapshot: "package"}},
		"changed everywhere":        {files: map[string]string{onMirror: "other", inSnapshot: "other"}, fails: true},
		"missing on every computer": {fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				text, found := test.files[r.URL.Path]
				if !found {
					http.NotFound(w, r)
					return
				}
				_, _ = io.WriteString(w, text)
			}))
			defer server.Close()
			cache := Cache{Dir: t.TempDir(), Mirror: server.URL, Client: server.Client(), Snapshots: server.URL + "/snapshots"}
			path, err := cache.Fetch(t.Context(), p, date)
			if (err != nil) != test.fails {
				t.Fatalf("got %v", err)
			}
			if test.fails {
				if kept, _ := os.ReadDir(cache.Dir); len(kept) > 0 {
					t.Errorf("the cache kept %v", kept)
				}
				return
			}
			test.files = nil
			if again, err := cache.Fetch(t.Context(), p, date); err != nil || again != path {
				t.Errorf("the cache was not used: %v", err)
			}
			if err := os.WriteFile(path, []byte("damaged"), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := cache.Fetch(t.Context(), p, date); err == nil {
				t.Error("a damaged file of the cache was used")
			}
		})
	}
}
