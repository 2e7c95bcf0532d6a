package debian

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/clearsign"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"
)

func TestCompareVersions(t *testing.T) {
	ascending := []string{
		"0.9", "1.0~rc1-1", "1.0-1", "1.0-1+b2", "1.0-1+deb13u1", "1.0-2", "1.0a-1", "1.0+dfsg-1", "1.2", "1.10", "1:0.1",
	}
	for i, a := range ascending {
		for j, b := range ascending {
			if got, want := sign(CompareVersions(a, b)), sign(i-j); got != want {
				t.Errorf("CompareVersions(%q, %q) = %d, want %d", a, b, got, want)
			}
		}
	}
	if CompareVersions("1.01-1", "1.1-1") != 0 {
		t.Error("leading zeros must not matter")
	}
}

func sign(n int) int { return min(max(n, -1), 1) }

// mirror serves a signed archive with packages of one architecture.
type mirror struct {
	*httptest.Server
	files map[string][]byte
	key   *openpgp.Entity
}

// fast creates keys quickly.
var fast = &packet.Config{Algorithm: packet.PubKeyAlgoEdDSA}

func newMirror(t *testing.T) *mirror {
	t.Helper()
	key, err := openpgp.NewEntity("Archive", "", "archive@example.com", fast)
	if err != nil {
		t.Fatal(err)
	}
	m := &mirror{files: map[string][]byte{}, key: key}
	m.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		content, found := m.files[r.URL.Path]
		if !found {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write(content)
	}))
	t.Cleanup(m.Close)
	return m
}

// publish adds a suite whose index contains the stanzas.
func (m *mirror) publish(t *testing.T, archive, suite, stanzas, fields string) {
	t.Helper()
	var index bytes.Buffer
	z, err := xz.NewWriter(&index)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(z, stanzas); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	base := "/" + archive + "/dists/" + suite
	m.files[base+"/main/binary-s390x/Packages.xz"] = index.Bytes()
	var release bytes.Buffer
	signer, err := clearsign.Encode(&release, m.key.PrivateKey, nil)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(signer, "Origin: Test\nDate: Fri, 13 Nov 2026 21:16:50 UTC\n%sSHA256:\n %x %d main/binary-s390x/Packages.xz\n",
		fields, sha256.Sum256(index.Bytes()), index.Len())
	if err := signer.Close(); err != nil {
		t.Fatal(err)
	}
	m.files[base+"/InRelease"] = release.Bytes()
}

func (m *mirror) source(t *testing.T) Source {
	t.Helper()
	keyring := filepath.Join(t.TempDir(), "keyring.gpg")
	file, err := os.Create(keyring)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := m.key.Serialize(file); err != nil {
		t.Fatal(err)
	}
	return Source{Mirror: m.URL, Keyring: keyring, Client: m.Client(), Now: time.Date(2026, 11, 15, 0, 0, 0, 0, time.UTC)}
}

const stanzas = `Package: git
Version: 1:2.0-1
Depends: libc6 (>= 2.38), libssl (<< 4) | libtls, perl:any, editor
Filename: pool/git.deb
Size: 10
SHA256: aa
Description: version control
 Version: this line continues the description

Package: libc6
Version: 2.41-12
Filename: pool/libc6.deb
Size: 20
SHA256: bb

Package: libtls
Version: 3.5-1
Filename: pool/libtls.deb
Size: 30
SHA256: cc

Package: vi
Version: 1
Provides: editor (= 1)
Filename: pool/vi.deb
Size: 40
SHA256: dd
`

var testSuites = []Suite{{Archive: "debian", Name: "stable"}, {Archive: "debian-security", Name: "stable-security"}}

func TestIndex_resolvesNewestVersions(t *testing.T) {
	m := newMirror(t)
	m.publish(t, "debian", "stable", stanzas, "")
	m.publish(t, "debian-security", "stable-security", "Package: libtls\nVersion: 3.5-1+deb13u1\nFilename: pool/updates/libtls.deb\nSize: 31\nSHA256: ee\n", "")
	universe, err := m.source(t).Index(t.Context(), testSuites, "s390x")
	if err != nil {
		t.Fatal(err)
	}
	packages, err := universe.Resolve([]string{"git"}, []string{"perl"})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range packages {
		got = append(got, fmt.Sprintf("%s %s %s %s %d %s", p.Name, p.Version, p.Archive, p.Path, p.Size, p.SHA256))
	}
	want := []string{
		"git 1:2.0-1 debian pool/git.deb 10 aa", "libc6 2.41-12 debian pool/libc6.deb 20 bb",
		"libtls 3.5-1+deb13u1 debian-security pool/updates/libtls.deb 31 ee", "vi 1 debian pool/vi.deb 40 dd",
	}
	if !slices.Equal(got, want) {
		t.Errorf("resolved %q, want %q", got, want)
	}
	if _, err := universe.Resolve([]string{"git"}, nil); err == nil || !strings.Contains(err.Error(), "resolving package git: no package satisfies perl") {
		t.Errorf("a missing dependency resulted in %v", err)
	}
	lock := Lock{Release: "13", Date: universe.Date, Packages: map[string][]Package{"s390x": packages}}
	var text bytes.Buffer
	if err := lock.Write(&text); err != nil {
		t.Fatal(err)
	}
	read, err := ReadLock(&text)
	if err != nil || !slices.Equal(read.Packages["s390x"], packages) || !read.Date.Equal(lock.Date) || read.Release != "13" {
		t.Errorf("the lock was read as %+v (%v)", read, err)
	}
}

// While a mirror is being updated, the file of the plain name may be an older one.
func TestIndex_readsAMirrorThatIsBeingUpdated(t *testing.T) {
	m := newMirror(t)
	m.publish(t, "debian", "stable", "Package: a\nVersion: 1\nFilename: a.deb\nSHA256: 00\nSize: 1\n", "")
	const dir = "/debian/dists/stable/main/binary-s390x/"
	current := m.files[dir+"Packages.xz"]
	m.files[dir+fmt.Sprintf("by-hash/SHA256/%x", sha256.Sum256(current))] = current
	m.files[dir+"Packages.xz"] = []byte("older")
	universe, err := m.source(t).Index(t.Context(), []Suite{{Archive: "debian", Name: "stable"}}, "s390x")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := universe.Resolve([]string{"a"}, nil); err != nil {
		t.Error(err)
	}
}

func TestIndex_refusesWhatIsNotSigned(t *testing.T) {
	for name, test := range map[string]struct {
		manipulate func(*mirror)
		fields     string
		want       string
	}{
		"another index": {
			manipulate: func(m *mirror) { m.files["/debian/dists/stable/main/binary-s390x/Packages.xz"] = []byte("other") },
			want:       "is not the file that is signed",
		},
		"changed release": {
			manipulate: func(m *mirror) {
				path := "/debian/dists/stable/InRelease"
				m.files[path] = bytes.Replace(m.files[path], []byte("Origin: Test"), []byte("Origin: Evil"), 1)
			},
			want: "verifying",
		},
		"unsigned release": {
			manipulate: func(m *mirror) { m.files["/debian/dists/stable/InRelease"] = []byte("Date: now\n") },
			want:       "not signed",
		},
		"unknown key": {
			manipulate: func(m *mirror) { m.key, _ = openpgp.NewEntity("Other", "", "other@example.com", fast) },
			want:       "verifying",
		},
		"old release": {fields: "Valid-Until: Sat, 14 Nov 2026 21:16:50 UTC\n", manipulate: func(*mirror) {}, want: "expired on"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMirror(t)
			m.publish(t, "debian", "stable", stanzas, test.fields)
			test.manipulate(m)
			_, err := m.source(t).Index(t.Context(), testSuites[:1], "s390x")
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
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
			m := newMirror(t)
			for path, text := range test.files {
				m.files[path] = []byte(text)
			}
			cache := Cache{Dir: t.TempDir(), Mirror: m.URL, Client: m.Client(), Snapshots: m.URL + "/snapshots"}
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
			m.files = nil
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

func TestOpen_readsEveryCompression(t *testing.T) {
	for _, compression := range []string{"", ".gz", ".xz", ".zst"} {
		t.Run("data.tar"+compression, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "p.deb")
			archive := "!<arch>\n" + member("debian-binary", []byte("2.0\n")) +
				member("control.tar"+compression, packed(t, compression, "./control", "Package: p\n")) +
				member("data.tar"+compression, packed(t, compression, "./usr/bin/p", "program"))
			if err := os.WriteFile(path, []byte(archive), 0o600); err != nil {
				t.Fatal(err)
			}
			deb, err := Open(path)
			if err != nil {
				t.Fatal(err)
			}
			if string(deb.Control) != "Package: p\n" {
				t.Errorf("the control file is %q", deb.Control)
			}
			var got string
			err = deb.Files(func(header *tar.Header, r io.Reader) error {
				content, err := io.ReadAll(r)
				got += header.Name + "=" + string(content)
				return err
			})
			if err != nil || got != "usr/bin/p=program" {
				t.Errorf("the files are %q (%v)", got, err)
			}
			if err := os.WriteFile(path, []byte(archive[:len(archive)-5]), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := Open(path); err == nil {
				t.Error("a truncated package was read")
			}
		})
	}
}

func member(name string, body []byte) string {
	padding := strings.Repeat("\n", len(body)%2)
	return fmt.Sprintf("%-16s%-12d%-6d%-6d%-8s%-10d`\n%s%s", name, 0, 0, 0, "100644", len(body), body, padding)
}

func packed(t *testing.T, compression, name, content string) []byte {
	t.Helper()
	var out bytes.Buffer
	var w io.WriteCloser = struct {
		io.Writer
		io.Closer
	}{&out, io.NopCloser(nil)}
	var err error
	switch compression {
	case ".gz":
		w = gzip.NewWriter(&out)
	case ".xz":
		w, err = xz.NewWriter(&out)
	case ".zst":
		w, err = zstd.NewWriter(&out)
	}
	if err != nil {
		t.Fatal(err)
	}
	archive := tar.NewWriter(w)
	if err := archive.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o755, Size: int64(len(content))}); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(archive, content); err != nil {
		t.Fatal(err)
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}
