// Package debian pins, downloads and reads packages of Debian, for any architecture. It
// runs apt-get and dpkg-deb, which verify signatures, resolve dependencies and unpack, but
// nothing of a package.
package debian

import (
	"bytes"
	"context"
	"fmt"
	"net/mail"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Source is a mirror of Debian.
type Source struct {
	// Mirror is the address that contains the archives, for example
	// http://deb.debian.org.
	Mirror string
	// Keyring is the file with the keys that sign the archives.
	Keyring string
	// Suites are the suites to read, each as ARCHIVE/SUITE.
	Suites []string
}

// Resolve returns the current packages with the given names and those that they depend on,
// sorted by name, and the date of the newest suite. Packages in installed are taken as
// installed, so that neither they nor what only they depend on are added.
func (s Source) Resolve(ctx context.Context, architecture string, names, installed []string) ([]Package, time.Time, error) {
	dir, err := os.MkdirTemp("", "capt-apt-*")
	if err != nil {
		return nil, time.Time{}, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	apt := func(args ...string) ([]byte, error) {
		cmd := exec.CommandContext(ctx, "apt-get", append([]string{"-qq"}, args...)...)
		cmd.Env, cmd.Stderr = append(os.Environ(), "LC_ALL=C", "APT_CONFIG="+filepath.Join(dir, "apt.conf")), os.Stderr
		out, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("running apt-get %s for %s: %w", args[0], architecture, err)
		}
		return out, nil
	}
	if err := s.configure(dir, architecture, installed); err != nil {
		return nil, time.Time{}, err
	}
	if _, err := apt("update"); err != nil {
		return nil, time.Time{}, err
	}
	list, err := apt(append([]string{"install", "--print-uris"}, names...)...)
	if err != nil {
		return nil, time.Time{}, err
	}
	packages, err := s.parse(string(list))
	if err != nil {
		return nil, time.Time{}, err
	}
	date, err := newestRelease(filepath.Join(dir, "var/lib/apt/lists"))
	return packages, date, err
}

// configure writes the configuration of apt, which replaces that of this machine.
func (s Source) configure(dir, architecture string, installed []string) error {
	var sources, status strings.Builder
	for _, suite := range s.Suites {
		archive, name, _ := strings.Cut(suite, "/")
		fmt.Fprintf(&sources, "deb [signed-by=%s] %s/%s %s main\n", s.Keyring, s.Mirror, archive, name)
	}
	for _, name := range installed {
		fmt.Fprintf(&status, "Package: %s\nStatus: install ok installed\nArchitecture: %s\nMulti-Arch: foreign\nVersion: 999:0\nMaintainer: -\nDescription: -\n\n", name, architecture)
	}
	config := fmt.Sprintf("Dir %q;\nDir::State::status %q;\nAPT::Architecture %q;\nAPT::Architectures %q;\n",
		dir, filepath.Join(dir, "status"), architecture, architecture) +
		"APT::Install-Recommends \"false\";\nAPT::Sandbox::User \"\";\nAcquire::Languages \"none\";\nAcquire::ForceHash \"SHA256\";\n"
	for name, content := range map[string]string{
		"apt.conf": config, "status": status.String(), "etc/apt/sources.list": sources.String(),
		"etc/apt/apt.conf.d/.keep": "", "etc/apt/preferences.d/.keep": "", "var/lib/apt/lists/partial/.keep": "", "var/cache/apt/archives/partial/.keep": "",
	} {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// parse reads what apt-get install --print-uris prints for each package: its address in
// quotes, its file name NAME_VERSION_ARCHITECTURE.deb, its size and its checksum.
func (s Source) parse(list string) ([]Package, error) {
	var packages []Package
	for line := range strings.Lines(list) {
		words := strings.Fields(line)
		if len(words) != 4 {
			return nil, fmt.Errorf("apt-get prints %q", line)
		}
		address, err := url.PathUnescape(strings.Trim(words[0], "'"))
		if err != nil {
			return nil, fmt.Errorf("apt-get prints %q: %w", line, err)
		}
		file, err := url.PathUnescape(words[1])
		if err != nil {
			return nil, fmt.Errorf("apt-get prints %q: %w", line, err)
		}
		inside, onMirror := strings.CutPrefix(address, s.Mirror+"/")
		archive, path, found := strings.Cut(inside, "/")
		sum, hashed := strings.CutPrefix(words[3], "SHA256:")
		size, err := strconv.ParseInt(words[2], 10, 64)
		parts := strings.Split(file, "_")
		if !onMirror || !found || !hashed || err != nil || len(parts) != 3 {
			return nil, fmt.Errorf("apt-get prints %q", line)
		}
		packages = append(packages, Package{Name: parts[0], Version: parts[1], Archive: archive, Path: path, Size: size, SHA256: sum})
	}
	slices.SortFunc(packages, func(a, b Package) int { return strings.Compare(a.Name, b.Name) })
	return packages, nil
}

// newestRelease returns the date of the newest release file that apt has verified.
func newestRelease(dir string) (time.Time, error) {
	var newest time.Time
	files, err := filepath.Glob(filepath.Join(dir, "*_InRelease"))
	if err != nil {
		return newest, err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return newest, err
		}
		_, after, _ := bytes.Cut(text, []byte("\nDate: "))
		line, _, _ := bytes.Cut(after, []byte("\n"))
		date, err := mail.ParseDate(string(line))
		if err != nil {
			return newest, fmt.Errorf("reading %s: %w", filepath.Base(file), err)
		}
		if date.After(newest) {
			newest = date
		}
	}
	return newest, nil
}
