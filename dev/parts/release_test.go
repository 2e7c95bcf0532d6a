package main

import (
	"os"
	"slices"
	"strings"
	"testing"
)

func TestReleases_areComplete(t *testing.T) {
	sums, err := parseChecksums(committed)
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for name, r := range releases {
		i := slices.IndexFunc(catalog, func(p part) bool { return p.name == name })
		if i < 0 {
			t.Errorf("%s is not in the catalog", name)
			continue
		}
		p := catalog[i]
		if len(p.versionArgs) == 0 {
			t.Errorf("%s cannot be checked after a download: it has no versionArgs", name)
		}
		pin, err := store{modules: "../bin"}.pin(p)
		if err != nil {
			t.Fatal(err)
		}
		for _, platform := range pinnedPlatforms {
			goos, goarch, _ := strings.Cut(platform, "/")
			known[checksumKey(name, pin.version, goos, goarch)] = true
			filled := r.fill(pin.version, goos, goarch)
			if !strings.HasPrefix(filled.url, "https://") || filled.sums != "" && !strings.HasPrefix(filled.sums, "https://") {
				t.Errorf("%s is not downloaded with HTTPS: %s, %s", name, filled.url, filled.sums)
			}
			archive := strings.HasSuffix(filled.url, ".tar.gz") || strings.HasSuffix(filled.url, ".zip")
			if archive != (filled.member != "") {
				t.Errorf("%s: an archive has a member, and nothing else does: %s, %q", name, filled.url, filled.member)
			}
			for _, text := range []string{filled.url, filled.member, filled.sums} {
				for _, placeholder := range []string{"VERSION", "NUMBER", "BRANCH", "OS", "ARCH"} {
					if strings.Contains(text, placeholder) {
						t.Errorf("%s: %s is left in %s", name, placeholder, text)
					}
				}
			}
		}
	}
	for key := range sums {
		if !known[key] {
			t.Errorf("releases.sum has %s, which is not the pinned version of a published program: run `make parts-pin`", key)
		}
	}
	lines := strings.Split(strings.TrimSpace(committed), "\n")
	if !slices.IsSorted(lines) {
		t.Error("releases.sum is not sorted")
	}
}

func TestFill_replacesEveryPlaceholder(t *testing.T) {
	got := releases["tofu"].fill("v1.12.6", "linux", "arm64")
	want := release{
		url:    "https://github.com/opentofu/opentofu/releases/download/v1.12.6/tofu_1.12.6_linux_arm64.tar.gz",
		member: "tofu", sums: "https://github.com/opentofu/opentofu/releases/download/v1.12.6/tofu_1.12.6_SHA256SUMS",
	}
	if got.url != want.url || got.member != want.member || got.sums != want.sums {
		t.Errorf("got %+v", got)
	}
	if identity := got.signed.identity; !strings.HasSuffix(identity, "release.yml@refs/heads/v1.12") {
		t.Errorf("signed by %s", identity)
	}
}

func TestParseChecksums_refusesOtherLines(t *testing.T) {
	sum := strings.Repeat("a", 64)
	for line, valid := range map[string]bool{
		"": true,
		"kubectl v1.0.0 linux/amd64 sha256:" + sum + " origin":       true,
		"kubectl v1.0.0 linux/amd64 sha256:" + sum + " corroborated": true,
		"kubectl v1.0.0 linux/amd64 sha256:" + sum:                   false,
		"kubectl v1.0.0 linux/amd64 " + sum + " origin":              false,
		"kubectl v1.0.0 linux/amd64 sha256:" + sum[1:] + " origin":   false,
		"kubectl v1.0.0 linux/amd64 sha256:" + sum + " guessed":      false,
		"kubectl v1.0.0 linux/amd64 sha512:" + sum + " origin":       false,
	} {
		if _, err := parseChecksums(line + "\n"); (err == nil) != valid {
			t.Errorf("%q: %v", line, err)
		}
	}
}

func TestChecksumOf_matchesWholeNames(t *testing.T) {
	a, b, c := strings.Repeat("a", 64), strings.Repeat("b", 64), strings.Repeat("c", 64)
	list := a + "  tool.tar.gz.sbom.json\n" + b + "  tool.tar.gz\n" + c + " *other.zip\n"
	for _, tt := range []struct{ text, name, want string }{
		{list, "tool.tar.gz", b},
		{list, "other.zip", c},
		{list, "tool", ""},
		{list, "missing", ""},
		{a + "\n", "anything", a},
		{strings.ToUpper(a) + "\n", "anything", a},
		{"not a checksum\n", "checksum", ""},
		{a[1:] + "  tool\n", "tool", ""},
	} {
		got, err := checksumOf(tt.text, tt.name)
		if got != tt.want || (err == nil) != (tt.want != "") {
			t.Errorf("checksum of %s is %q (%v), want %q", tt.name, got, err, tt.want)
		}
	}
}

// The quickstart lists what is downloaded on each platform.
func TestReleases_areAsTheQuickstartDescribesThem(t *testing.T) {
	text, err := os.ReadFile("../../docs/quickstart.md")
	if err != nil {
		t.Fatal(err)
	}
	described := map[string][]string{}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, "|")
		if len(cells) != 5 {
			continue
		}
		for i, name := range strings.Split(cells[1], "`") {
			if i%2 == 1 {
				described[name] = []string{strings.TrimSpace(cells[2]), strings.TrimSpace(cells[3])}
			}
		}
	}
	sums, err := parseChecksums(committed)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range inGroup(groupQuickstart) {
		for i, platform := range pinnedPlatforms {
			s := store{modules: "../bin", cache: t.TempDir(), sums: sums}
			s.goos, s.goarch, _ = strings.Cut(platform, "/")
			chosen, err := choose([]string{name})
			if err != nil {
				t.Fatal(err)
			}
			p, err := s.pin(chosen[0])
			if err != nil {
				t.Fatal(err)
			}
			want := "compiled"
			if r := releases[name]; r != nil && sums[checksumKey(name, p.version, s.goos, s.goarch)] != "" {
				want = "downloaded, by checksum"
			} else if r != nil && r.signed != nil {
				want = "downloaded, by signature"
			}
			if got := described[name]; len(got) != 2 || !strings.HasPrefix(got[i], want) {
				t.Errorf("%s on %s is described as %q, want %s", name, platform, got, want)
			}
		}
	}
}
