package main

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// script writes a program that prints a text for the argument "version" and
// fails for any other.
func script(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	body := "#!/bin/sh\n[ \"$1\" = version ] || exit 1\ncat <<'END'\n" + text + "\nEND\n"
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(body), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestReports_onlyExactlyTheVersion(t *testing.T) {
	tests := map[string]bool{
		"v1.3.2":                           true,
		"1.3.2":                            true,
		"Thing v1.3.2\non linux_amd64":     true,
		"version 1.3.2 built with go1.26":  true,
		`{"gitVersion":"v1.3.2"}`:          true,
		"v1.3.20":                          false,
		"v1.3.2.1":                         false,
		"v1.3.2-rc.1":                      false,
		"v1.3.2+fork.1":                    false,
		"v11.3.2":                          false,
		"v0.1.3.2":                         false,
		"v1.3":                             false,
		"v1x3x2":                           false,
		"nothing":                          false,
		"v1.3.2-dirty, next to be v1.3.20": false,
	}
	dir := t.TempDir()
	for text, want := range tests {
		path := script(t, dir, "thing", text)
		if got, err := printsVersion(t.Context(), probeTimeout, path, []string{"version"}, "v1.3.2"); got != want || err != nil {
			t.Errorf("%q: reports is %v (%v), want %v", text, got, err, want)
		}
	}
	path := script(t, dir, "thing", "v1.3.2")
	if got, err := printsVersion(t.Context(), probeTimeout, path, []string{"--version"}, "v1.3.2"); got || err != nil {
		t.Error("a program that fails was believed")
	}
	if got, err := printsVersion(t.Context(), probeTimeout, filepath.Join(dir, "absent"), []string{"version"}, "v1.3.2"); got || err != nil {
		t.Error("a program that does not exist was believed")
	}
}

// places are the directories in which a program is looked for.
type places struct{ cache, assets, envtest, first, second string }

func newPlaces(t *testing.T) (places, store) {
	t.Helper()
	root := t.TempDir()
	p := places{
		cache: filepath.Join(root, "cache"), assets: filepath.Join(root, "assets"),
		envtest: filepath.Join(root, "data", "kubebuilder-envtest", "k8s", "1.3.2-"+runtime.GOOS+"-"+runtime.GOARCH),
		first:   filepath.Join(root, "first"), second: filepath.Join(root, "second"),
	}
	t.Setenv("KUBEBUILDER_ASSETS", p.assets)
	t.Setenv("XDG_DATA_HOME", filepath.Join(root, "data"))
	// The scripts need a shell and cat.
	t.Setenv("PATH", strings.Join([]string{p.first, p.second, os.Getenv("PATH")}, string(os.PathListSeparator)))
	return p, store{cache: p.cache}
}

var thing = pinned{part: part{name: "capt-test-thing", versionArgs: []string{"version"}}, version: "v1.3.2", key: "v1.3.2-0123"}

func find(t *testing.T, s store, p pinned) string {
	t.Helper()
	path, err := s.find(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func TestFind_looksInAssetsThenEnvtestThenPathThenTheCache(t *testing.T) {
	p, s := newPlaces(t)
	if got := find(t, s, thing); got != "" {
		t.Fatalf("found %s where there is nothing", got)
	}
	// Each one that is added goes before those that are there.
	for _, dir := range []string{filepath.Join(p.cache, thing.name, thing.key), p.second, p.first, p.envtest, p.assets} {
		text := "v1.3.2"
		if strings.HasPrefix(dir, p.cache) {
			text = "the version of the cache is its key"
		}
		want := script(t, dir, thing.name, text)
		if got := find(t, s, thing); got != want {
			t.Errorf("found %q, want %s", got, want)
		}
	}
}

func TestFind_passesOverWhatDoesNotFit(t *testing.T) {
	p, s := newPlaces(t)
	script(t, p.assets, thing.name, "v1.3.1")
	if err := os.MkdirAll(filepath.Join(p.envtest, thing.name), 0o755); err != nil {
		t.Fatal(err)
	}
	notExecutable := script(t, p.first, thing.name, "v1.3.2")
	if err := os.Chmod(notExecutable, 0o644); err != nil {
		t.Fatal(err)
	}
	want := script(t, p.second, thing.name, "v1.3.2")
	if got := find(t, s, thing); got != want {
		t.Errorf("found %q, want %s", got, want)
	}
}

// A user who can write to a directory of PATH must not choose what the tests run.
func TestFind_doesNotRunWhatOthersCanReplace(t *testing.T) {
	p, s := newPlaces(t)
	ran := filepath.Join(t.TempDir(), "ran")
	if err := os.MkdirAll(p.first, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(p.first, thing.name), []byte("#!/bin/sh\ntouch "+ran+"\necho v1.3.2\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{p.first, filepath.Join(p.first, thing.name)} {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, 0o777); err != nil {
			t.Fatal(err)
		}
		if got := find(t, s, thing); got != "" {
			t.Errorf("found %s, which all users can replace", got)
		}
		if err := os.Chmod(path, info.Mode().Perm()); err != nil {
			t.Fatal(err)
		}
	}
	if os.Getuid() == 0 {
		const other = 65534
		for _, path := range []string{p.first, filepath.Join(p.first, thing.name)} {
			if err := os.Chown(path, other, other); err != nil {
				t.Fatal(err)
			}
			if got := find(t, s, thing); got != "" {
				t.Errorf("found %s, whose owner can replace it", got)
			}
			if err := os.Chown(path, 0, 0); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := os.Stat(ran); err == nil {
		t.Error("it was run")
	}
	t.Chdir(filepath.Dir(p.first))
	t.Setenv("PATH", "first"+string(os.PathListSeparator)+os.Getenv("PATH")[len(p.first)+1:])
	if got := find(t, s, thing); got != "" {
		t.Errorf("found %s in a directory that is relative to the current one", got)
	}
	t.Setenv("PATH", p.first+string(os.PathListSeparator)+os.Getenv("PATH"))
	if got := find(t, s, thing); got == "" {
		t.Error("found nothing")
	}
}

func TestFind_comparesTheChecksumOfTheProgram(t *testing.T) {
	p, s := newPlaces(t)
	s.goos, s.goarch = "linux", "amd64"
	known := thing
	known.name = "kubectl"
	path := script(t, p.first, known.name, "v1.3.2")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for sum, want := range map[string]string{sumText(string(text)): path, sumText("another"): ""} {
		if s.sums, err = parseChecksums("kubectl v1.3.2 linux/amd64 sha256:" + sum + " corroborated\n"); err != nil {
			t.Fatal(err)
		}
		t.Setenv("PATH", p.first+string(os.PathListSeparator)+"/bin")
		if got := find(t, s, known); got != want {
			t.Errorf("found %q, want %q", got, want)
		}
	}
}

func TestFind_trustsOnlyTheCacheWithoutAWayToAsk(t *testing.T) {
	p, s := newPlaces(t)
	mute := thing
	mute.versionArgs = nil
	script(t, p.first, thing.name, "v1.3.2")
	if got := find(t, s, mute); got != "" {
		t.Errorf("found %s, whose version is unknown", got)
	}
	want := script(t, filepath.Join(p.cache, thing.name, thing.key), thing.name, "")
	if got := find(t, s, mute); got != want {
		t.Errorf("found %q, want %s", got, want)
	}
}

// What is linked into a directory of PATH must not become a link to itself when
// the cache has a new key.
func TestFind_followsLinksToWhatTheyPointAt(t *testing.T) {
	p, s := newPlaces(t)
	old := script(t, filepath.Join(p.cache, thing.name, "old-key"), thing.name, "v1.3.2")
	link := filepath.Join(p.assets, thing.name)
	if err := relink(old, link); err != nil {
		t.Fatal(err)
	}
	found := find(t, s, thing)
	if found != old {
		t.Errorf("found %q, want %s", found, old)
	}
	if err := relink(found, link); err != nil {
		t.Fatal(err)
	}
	if !executable(link) {
		t.Error("the link leads nowhere")
	}
}

func TestFind_returnsAbsolutePaths(t *testing.T) {
	root := t.TempDir()
	t.Chdir(root)
	t.Setenv("KUBEBUILDER_ASSETS", "assets")
	script(t, filepath.Join(root, "assets"), thing.name, "v1.3.2")
	got := find(t, store{cache: filepath.Join(root, "cache")}, thing)
	if !filepath.IsAbs(got) || !executable(got) {
		t.Errorf("found %q, which a link cannot point at", got)
	}
}

func TestFind_usesOnlyReproducibleProgramsForAPlatform(t *testing.T) {
	root := t.TempDir()
	s := store{cache: root, goos: "linux", goarch: "s390x", reproducible: true}
	p := pinned{part: part{name: "thing", versionArgs: []string{"version"}}, version: "v1.2.3", key: "key"}
	script(t, filepath.Join(root, "thing", "key"), "thing", "v1.2.3")
	t.Setenv("PATH", filepath.Join(root, "thing", "key"))
	if found := find(t, s, p); found != "" {
		t.Errorf("found %s, which Go has not built", found)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(s.cached(p)); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, s.cached(p)); err != nil {
		t.Fatal(err)
	}
	if found := find(t, s, p); found != s.cached(p) {
		t.Errorf("found %q instead of the program that this version of Go has built", found)
	}
}

func TestStamped_containsVersion(t *testing.T) {
	tests := []struct{ stamp, version, want string }{
		{"", "v1.37.1", ""},
		{"-X main.version=VERSION", "v1.37.1", "-X main.version=v1.37.1"},
		{"-X a.v=VERSION -X a.major=MAJOR -X a.minor=MINOR", "v1.37.1", "-X a.v=v1.37.1 -X a.major=1 -X a.minor=37"},
		{"-X a.dev=no", "v1.37.1", "-X a.dev=no"},
	}
	for _, tt := range tests {
		if got := stamped(pinned{part: part{stamp: tt.stamp}, version: tt.version}); got != tt.want {
			t.Errorf("stamp %q is %q, want %q", tt.stamp, got, tt.want)
		}
	}
}

func TestRelink_replacesInOneStep(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(dir, "bin", "thing")
	one, two := script(t, filepath.Join(dir, "1"), "thing", "1"), script(t, filepath.Join(dir, "2"), "thing", "2")
	for _, target := range []string{one, one, two, one} {
		if err := relink(target, link); err != nil {
			t.Fatal(err)
		}
		if got, err := os.Readlink(link); err != nil || got != target {
			t.Errorf("link points at %q (%v), want %s", got, err, target)
		}
	}

	left, err := os.ReadDir(filepath.Dir(link))
	if err != nil || len(left) != 1 {
		t.Errorf("left behind: %v (%v)", left, err)
	}
}

func TestPin_changesItsKeyWithWhatIsBuilt(t *testing.T) {
	dir := writeSource(t, map[string]string{"m/go.mod": "module m\nrequire example.com/thing v1.3.2\n"})
	s := store{modules: dir, goos: "linux", goarch: "amd64"}
	p := part{name: "thing", module: "m", pkg: "example.com/thing/cmd", versionOf: "example.com/thing"}
	if _, err := s.pin(p); err == nil {
		t.Error("a module without checksums was taken")
	}
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, "m", name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("go.sum", "")
	keys, last := map[string]string{}, ""
	for _, step := range []struct {
		name   string
		change func()
		same   bool
	}{
		{name: "at first", change: func() {}},
		{name: "other checksums", change: func() { write("go.sum", "example.com/other v1.0.0 h1:x=\n") }},
		{name: "another stamp", change: func() { p.stamp = "-X main.version=VERSION" }},
		{name: "another package", change: func() { p.pkg = "example.com/thing/other" }},
		{name: "another platform", change: func() { s.goarch = "s390x" }},
		{name: "a service", change: func() { p.services = []string{"ec2"} }},
		{name: "two services", change: func() { p.services = []string{"ec2", "iam"} }},
		{name: "a source", change: func() { write("main.go", "package main\n") }},
		{name: "another source", change: func() { write("main.go", "package main // changed\n") }},
		{name: "a test", change: func() { write("main_test.go", "package main\n") }, same: true},
	} {
		step.change()
		got, err := s.pin(p)
		if err != nil {
			t.Fatal(err)
		}
		if got.version != "v1.3.2" || !strings.HasPrefix(got.key, "v1.3.2-") {
			t.Errorf("%s: version %s, key %s", step.name, got.version, got.key)
		}
		if other, seen := keys[got.key]; seen != step.same || step.same && got.key != last {
			t.Errorf("%s: the key is %s, that of %q", step.name, got.key, other)
		}
		keys[got.key], last = step.name, got.key
	}
}
