package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// navFile has the pages of the site in the order of a user's day.
const navFile = "docs/nav.yaml"

// pagesOf returns the pages of the repository by path: those that git has, and new ones.
func pagesOf(root string) (map[string]*page, error) {
	cmd := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", "*.md")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("listing pages: %w", err)
	}
	pages := map[string]*page{}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		pages[name], err = readPage(root, name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			// It is deleted, but not committed yet.
			delete(pages, name)
		case err != nil:
			return nil, err
		}
	}
	return pages, nil
}

// check returns a finding for each problem.
func check(root string) ([]string, error) {
	pages, err := pagesOf(root)
	if err != nil {
		return nil, err
	}
	targets, err := makeTargets(root)
	if err != nil {
		return nil, err
	}
	var findings []string
	for _, p := range pages {
		for _, l := range p.links {
			if problem := linkProblem(root, pages, p, l.target); problem != "" {
				findings = append(findings, fmt.Sprintf("%s:%d: %s: %s", p.path, l.line, l.target, problem))
			}
		}
		for _, line := range p.images {
			findings = append(findings, fmt.Sprintf("%s:%d: an HTML image has no address on the site: write ![text](path)", p.path, line))
		}
		problems, err := markerProblems(root, p, targets)
		if err != nil {
			return nil, err
		}
		findings = append(findings, problems...)
	}
	nav, err := readNav(root)
	if err != nil {
		return nil, err
	}
	for _, name := range nav {
		if pages["docs/"+name] == nil && name != indexPage {
			findings = append(findings, fmt.Sprintf("%s: %s does not exist", navFile, name))
		}
	}
	for name := range pages {
		if inDocs, is := strings.CutPrefix(name, "docs/"); is && !slices.Contains(nav, inDocs) {
			findings = append(findings, fmt.Sprintf("%s: %s is missing", navFile, inDocs))
		}
	}
	lists, err := listProblems(root, pages, nav)
	if err != nil {
		return nil, err
	}
	findings = append(findings, lists...)
	findings = append(findings, translationProblems(pages)...)
	claims, err := claimProblems(root)
	if err != nil {
		return nil, err
	}
	findings = append(findings, claims...)
	reasons, err := reasonProblems(root)
	if err != nil {
		return nil, err
	}
	findings = append(findings, reasons...)
	slices.Sort(findings)
	return findings, nil
}

// linkProblem returns what is wrong with a link, or "".
func linkProblem(root string, pages map[string]*page, from *page, target string) string {
	parsed, err := url.Parse(target)
	if err != nil {
		return err.Error()
	}
	if parsed.Scheme != "" || parsed.Host != "" {
		if parsed.Scheme == "http" && !strings.HasPrefix(parsed.Host, "127.0.0.1") && !strings.HasPrefix(parsed.Host, "localhost") {
			return "use https"
		}
		return ""
	}
	name := from.path
	if parsed.Path != "" {
		name = path.Join(path.Dir(from.path), parsed.Path)
		if strings.HasPrefix(name, "..") {
			return "it is outside of the repository"
		}
		if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(name))); err != nil {
			return "the file does not exist"
		}
	}
	if parsed.Fragment == "" {
		return ""
	}
	to := pages[name]
	if to == nil && strings.HasSuffix(name, ".md") {
		if to, err = readPage(root, name); err != nil {
			return err.Error()
		}
	}
	if to != nil && !to.anchors[parsed.Fragment] {
		return "the page has no such heading"
	}
	return ""
}

// readNav returns the pages of the navigation in order.
func readNav(root string) ([]string, error) {
	text, err := os.ReadFile(filepath.Join(root, navFile))
	if err != nil {
		return nil, fmt.Errorf("reading the navigation: %w", err)
	}
	var nav []any
	if err := yaml.Unmarshal(text, &nav); err != nil {
		return nil, fmt.Errorf("reading %s: %w", navFile, err)
	}
	names := navPages(nav)
	if len(names) == 0 {
		return nil, errors.New(navFile + " has no pages")
	}
	return names, nil
}

func navPages(item any) []string {
	var names []string
	switch item := item.(type) {
	case string:
		return []string{item}
	case []any:
		for _, child := range item {
			names = append(names, navPages(child)...)
		}
	case map[string]any:
		for _, child := range item {
			names = append(names, navPages(child)...)
		}
	}
	return names
}
