package main

import (
	"bufio"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// release describes where a program is published. In its texts, VERSION (v1.37.1),
// NUMBER (1.37.1), BRANCH (v1.37), OS and ARCH are replaced.
type release struct {
	// url is the address of the program, or of a .tar.gz or .zip that contains it.
	url string
	// member is the path of the program in the archive.
	member string
	// sums is the address of a file with checksums, if there is one.
	sums string
	// signed is nil if neither the program nor the checksums are signed.
	signed *signature
}

// signature describes a keyless signature of Sigstore: of the file with checksums if
// there is one, else of the file at url.
type signature struct {
	// signature and certificate are added to the address of the signed file.
	signature, certificate string
	// identity is the email address or URI in the certificate, and issuer the one who
	// has verified it.
	identity, issuer string
}

func kubernetesRelease(name string) *release {
	return &release{
		url: "https://dl.k8s.io/release/VERSION/bin/OS/ARCH/" + name,
		signed: &signature{
			signature: ".sig", certificate: ".cert",
			identity: "krel-staging@k8s-releng-prod.iam.gserviceaccount.com", issuer: "https://accounts.google.com",
		},
	}
}

const github = "https://github.com/"

func etcdRelease(name string) *release {
	return &release{
		url:    github + "etcd-io/etcd/releases/download/VERSION/etcd-VERSION-OS-ARCH.tar.gz",
		member: "etcd-VERSION-OS-ARCH/" + name, sums: github + "etcd-io/etcd/releases/download/VERSION/SHA256SUMS",
	}
}

// releases are the published programs by name. A program without versionArgs in the
// catalog, or that is not published as a file, is compiled.
var releases = map[string]*release{
	"kube-apiserver":          kubernetesRelease("kube-apiserver"),
	"kube-controller-manager": kubernetesRelease("kube-controller-manager"),
	"kube-scheduler":          kubernetesRelease("kube-scheduler"),
	"kubectl":                 kubernetesRelease("kubectl"),
	"kubelet":                 kubernetesRelease("kubelet"),
	"etcd":                    etcdRelease("etcd"),
	"etcdctl":                 etcdRelease("etcdctl"),
	"etcdutl":                 etcdRelease("etcdutl"),
	"tofu": {
		url:    github + "opentofu/opentofu/releases/download/VERSION/tofu_NUMBER_OS_ARCH.tar.gz",
		member: "tofu", sums: github + "opentofu/opentofu/releases/download/VERSION/tofu_NUMBER_SHA256SUMS",
		signed: &signature{
			signature: ".sig", certificate: ".pem",
			identity: github + "opentofu/opentofu/.github/workflows/release.yml@refs/heads/BRANCH", issuer: "https://token.actions.githubusercontent.com",
		},
	},
	"kwok": {url: github + "kubernetes-sigs/kwok/releases/download/VERSION/kwok-OS-ARCH"},
	"helm": {
		url:    "https://get.helm.sh/helm-VERSION-OS-ARCH.tar.gz",
		member: "OS-ARCH/helm", sums: "https://get.helm.sh/helm-VERSION-OS-ARCH.tar.gz.sha256sum",
	},
	"golangci-lint": {
		url:    github + "golangci/golangci-lint/releases/download/VERSION/golangci-lint-NUMBER-OS-ARCH.tar.gz",
		member: "golangci-lint-NUMBER-OS-ARCH/golangci-lint", sums: github + "golangci/golangci-lint/releases/download/VERSION/golangci-lint-NUMBER-checksums.txt",
	},
}

// fill returns the release of a version for a platform.
func (r release) fill(version, goos, goarch string) release {
	number := strings.TrimPrefix(version, "v")
	branch := version
	if last := strings.LastIndex(version, "."); last > 0 {
		branch = version[:last]
	}
	replace := strings.NewReplacer("VERSION", version, "NUMBER", number, "BRANCH", branch, "OS", goos, "ARCH", goarch).Replace
	filled := release{url: replace(r.url), member: replace(r.member), sums: replace(r.sums)}
	if r.signed != nil {
		signed := *r.signed
		signed.identity = replace(signed.identity)
		filled.signed = &signed
	}
	return filled
}

// file returns the name of the published file.
func (r release) file() string { return path.Base(r.url) }

// checksums are the expected checksums of published files. A line has the name of a
// program, its version, its platform, the checksum, and where it was seen: "origin" at
// the release, "corroborated" in at least two other projects that pin it.
type checksums map[string]string

//go:embed releases.sum
var committed string

func checksumKey(name, version, goos, goarch string) string {
	return strings.Join([]string{name, version, goos + "/" + goarch}, " ")
}

func parseChecksums(text string) (checksums, error) {
	sums := checksums{}
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		if len(words) != 5 || !isChecksum(strings.TrimPrefix(words[3], "sha256:")) || !strings.HasPrefix(words[3], "sha256:") ||
			!slices.Contains([]string{"origin", "corroborated"}, words[4]) {
			return nil, fmt.Errorf("invalid line %q: expected NAME VERSION OS/ARCH sha256:SUM origin|corroborated", strings.TrimSpace(line))
		}
		sums[strings.Join(words[:3], " ")] = strings.TrimPrefix(words[3], "sha256:")
	}
	return sums, nil
}

func isChecksum(text string) bool {
	return len(text) == 64 && strings.Trim(text, "0123456789abcdef") == ""
}

// seenFile contains the checksums of releases whose signature this machine has
// verified.
func (s store) seenFile() string { return filepath.Join(s.cache, "releases.sum") }

// expected returns the checksum of a published file that is pinned, or was seen with a
// valid signature, or "" if none is known.
func (s store) expected(p pinned) (string, error) {
	key := checksumKey(p.name, p.version, s.goos, s.goarch)
	if sum := s.sums[key]; sum != "" {
		return sum, nil
	}
	text, err := os.ReadFile(s.seenFile())
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("reading the seen checksums: %w", err)
	}
	seen, err := parseChecksums(string(text))
	if err != nil {
		return "", fmt.Errorf("%s: %w: remove the file", s.seenFile(), err)
	}
	return seen[key], nil
}

// remember keeps the checksum of a file whose signature was verified, so that only this
// file is accepted from now on.
func (s store) remember(p pinned, sum string) error {
	file, err := os.OpenFile(s.seenFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("keeping a checksum: %w", err)
	}
	_, err = fmt.Fprintf(file, "%s sha256:%s origin\n", checksumKey(p.name, p.version, s.goos, s.goarch), sum)
	if err := errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("keeping a checksum: %w", err)
	}
	return nil
}

// released returns the path in the cache of the published file with a checksum.
func (s store) released(p pinned, sum string) string {
	return filepath.Join(s.cache, p.name, p.version+"-release-"+sum[:12], p.name)
}

// checksumOf returns the checksum of a file in the text of a checksum file: lines of a
// checksum and a name, or a checksum alone. A name must match as a whole, because the
// text may also list files that belong to it.
func checksumOf(text, name string) (string, error) {
	lines := bufio.NewScanner(strings.NewReader(text))
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		if len(words) == 0 {
			continue
		}
		sum := strings.ToLower(words[0])
		alone := len(words) == 1
		if named := len(words) == 2 && strings.TrimPrefix(words[1], "*") == name; (alone || named) && isChecksum(sum) {
			return sum, nil
		}
	}
	return "", fmt.Errorf("the checksum file does not list %s", name)
}
