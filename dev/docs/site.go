package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"

	"github.com/appthrust/capt/dev/python"
)

const (
	repository = "https://github.com/appthrust/capt"
	// indexPage is the README as the first page of the site.
	indexPage = "index.md"
)

// requirements are MkDocs and its theme, each file pinned by its hash.
//
//go:embed requirements.txt
var requirements string

// config is that of MkDocs, without the navigation. The slugs are those of GitHub.
const config = `site_name: CAPT
site_description: Cluster API Provider Terraform
site_url: https://appthrust.github.io/capt/
repo_url: ` + repository + `
docs_dir: pages
site_dir: %s
theme:
  name: material
  font: false
  features: [navigation.sections, navigation.indexes, content.code.copy, toc.follow]
plugins: [search]
validation:
  links: {anchors: warn, not_found: warn, unrecognized_links: warn, absolute_links: warn}
  nav: {omitted_files: warn, not_found: warn, absolute_links: warn}
markdown_extensions:
- tables
- toc:
    permalink: true
    slugify: !!python/object/apply:pymdownx.slugs.slugify {kwds: {case: lower}}
- pymdownx.superfences:
    custom_fences:
    - {name: mermaid, class: mermaid, format: !!python/name:pymdownx.superfences.fence_code_format ''}
- pymdownx.highlight
nav:
%s`

// build builds the site to out/site. With --strict, MkDocs checks its links and anchors.
func build(ctx context.Context, root string) error {
	absolute, err := filepath.Abs(root)
	if err != nil {
		return fmt.Errorf("finding the repository: %w", err)
	}
	if findings, err := check(absolute); err != nil || len(findings) > 0 {
		return errors.Join(err, errors.New(strings.Join(findings, "\n")))
	}
	mkdocs, err := installMkDocs(ctx)
	if err != nil {
		return err
	}
	staged, site := filepath.Join(absolute, "out", "docs"), filepath.Join(absolute, "out", "site")
	if err := stage(absolute, staged, site); err != nil {
		return err
	}
	command := exec.CommandContext(ctx, mkdocs, "build", "--strict", "--quiet", "--clean", "--config-file", filepath.Join(staged, "mkdocs.yml"))
	command.Env = append(os.Environ(), "NO_MKDOCS_2_WARNING=1")
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("building the site: %w\n%s", err, out)
	}
	fmt.Println("wrote out/site/index.html")
	return nil
}

// installMkDocs installs MkDocs into the user's cache and returns its path.
func installMkDocs(ctx context.Context) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("finding the cache: %w", err)
	}
	dir, err := python.Install(ctx, filepath.Join(cache, "capt"), "mkdocs", requirements)
	return filepath.Join(dir, "bin", "mkdocs"), err
}

// stage writes the sources of the site: the pages with links that work there, and the
// configuration.
func stage(root, staged, site string) error {
	if err := errors.Join(os.RemoveAll(staged), os.RemoveAll(site)); err != nil {
		return fmt.Errorf("removing the last site: %w", err)
	}
	pages := filepath.Join(staged, "pages")
	err := fs.WalkDir(os.DirFS(root), "docs", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || strings.HasSuffix(name, ".yaml") || strings.HasSuffix(name, ".py") {
			return err
		}
		return stagePage(root, name, filepath.Join(pages, strings.TrimPrefix(name, "docs/")))
	})
	if err := errors.Join(err, stagePage(root, "README.md", filepath.Join(pages, indexPage))); err != nil {
		return err
	}
	nav, err := os.ReadFile(filepath.Join(root, navFile))
	if err != nil {
		return fmt.Errorf("reading the navigation: %w", err)
	}
	if err := os.WriteFile(filepath.Join(staged, "mkdocs.yml"), fmt.Appendf(nil, config, site, nav), 0o600); err != nil {
		return fmt.Errorf("writing the configuration: %w", err)
	}
	return nil
}

func stagePage(root, name, to string) error {
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		return fmt.Errorf("reading a page: %w", err)
	}
	if strings.HasSuffix(name, ".md") {
		text = []byte(siteLinks(root, name, string(text)))
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return fmt.Errorf("writing a page: %w", err)
	}
	if err := os.WriteFile(to, text, 0o600); err != nil {
		return fmt.Errorf("writing a page: %w", err)
	}
	return nil
}

// siteLinks changes the relative links of a page to those of the site. What is not on
// the site is on GitHub.
func siteLinks(root, name, text string) string {
	inBlock := ""
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if found := fence.FindStringSubmatch(line); found != nil {
			switch inBlock {
			case "":
				inBlock = found[2]
			case found[2]:
				inBlock = ""
			}
			continue
		}
		if inBlock != "" {
			continue
		}
		lines[i] = inlineLink.ReplaceAllStringFunc(line, func(whole string) string {
			target := inlineLink.FindStringSubmatch(whole)[2]
			at := strings.LastIndex(whole, "("+target)
			return whole[:at+1] + siteTarget(root, name, target) + whole[at+1+len(target):]
		})
	}
	return strings.Join(lines, "\n")
}

func siteTarget(root, from, target string) string {
	parsed, err := url.Parse(target)
	if err != nil || parsed.Scheme != "" || parsed.Path == "" {
		return target
	}
	name := path.Join(path.Dir(from), parsed.Path)
	fragment := ""
	if parsed.Fragment != "" {
		fragment = "#" + parsed.Fragment
	}
	onSite := func(name string) string {
		if name == "README.md" {
			return indexPage
		}
		inDocs, _ := strings.CutPrefix(name, "docs/")
		return inDocs
	}
	if name == "README.md" || strings.HasPrefix(name, "docs/") && path.Ext(name) != "" && path.Ext(name) != ".py" && path.Ext(name) != ".yaml" {
		relative, err := filepath.Rel(path.Dir(onSite(from)), onSite(name))
		if err == nil {
			return filepath.ToSlash(relative) + fragment
		}
	}
	kind := "blob"
	if info, err := os.Stat(filepath.Join(root, name)); err == nil && info.IsDir() {
		kind = "tree"
	}
	return repository + "/" + kind + "/main/" + name + fragment
}
