package main

import (
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/appthrust/capt/dev/image/debian"
)

// component is something that an image consists of.
type component struct {
	name, version string
	// purl is the package URL.
	purl string
	// sha256 is the checksum of the file that the component comes from, if it is known.
	sha256 string
	// sum is the checksum of a Go module in go.sum, if it has one.
	sum string
	// program is the name of the program that a Go module or a package of npm is part of.
	// It is empty for a program itself and for a Debian package.
	program string
}

func debianComponent(p debian.Package, release, architecture string) component {
	return component{
		name: p.Name, version: p.Version, sha256: p.SHA256,
		purl: fmt.Sprintf("pkg:deb/debian/%s@%s?arch=%s&distro=debian-%s", p.Name, url.QueryEscape(p.Version), architecture, release),
	}
}

// programComponents returns a program and the Go modules that it is built of. If the
// version is empty, it is that of the main module.
func programComponents(path, version string) ([]component, error) {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the modules of %s: %w", path, err)
	}
	content, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer content.Close()
	hash, _, err := v1.SHA256(content)
	if err != nil {
		return nil, err
	}
	if version == "" {
		version = info.Main.Version
	}
	name, goVersion := filepath.Base(path), strings.TrimPrefix(info.GoVersion, "go")
	list := []component{
		{name: name, version: version, sha256: hash.Hex, purl: goURL(info.Main.Path, version)},
		{name: "stdlib", version: goVersion, purl: goURL("stdlib", goVersion), program: name},
	}
	for _, module := range info.Deps {
		if module.Replace != nil {
			module = module.Replace
		}
		// A module of this repository has no version, and is part of the program.
		if !strings.HasPrefix(module.Path, ".") {
			list = append(list, component{name: module.Path, version: module.Version, purl: goURL(module.Path, module.Version), sum: module.Sum, program: name})
		}
	}
	return list, nil
}

// goURL returns the package URL of a module, which is in lower case by definition.
func goURL(module, version string) string {
	return "pkg:golang/" + strings.ToLower(module) + "@" + url.QueryEscape(version)
}

// pageComponents returns the packages of npm that are part of the page, and so of a
// program. The packages that only build it are not part of it.
func pageComponents(lock, program string) ([]component, error) {
	text, err := os.ReadFile(lock)
	if err != nil {
		return nil, fmt.Errorf("reading the packages of the page: %w", err)
	}
	var content struct {
		Packages map[string]struct {
			Version string `json:"version"`
			Dev     bool   `json:"dev"`
		} `json:"packages"`
	}
	if err := json.Unmarshal(text, &content); err != nil {
		return nil, fmt.Errorf("reading the packages of the page in %s: %w", lock, err)
	}
	var list []component
	for path, p := range content.Packages {
		const dir = "node_modules/"
		at := strings.LastIndex(path, dir)
		if at < 0 || p.Dev {
			continue
		}
		name := path[at+len(dir):]
		list = append(list, component{
			name: name, version: p.Version, program: program,
			purl: "pkg:npm/" + strings.Replace(name, "@", "%40", 1) + "@" + url.QueryEscape(p.Version),
		})
	}
	slices.SortFunc(list, func(a, b component) int { return strings.Compare(a.name, b.name) })
	return list, nil
}
