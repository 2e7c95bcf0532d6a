package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/go-github/v82/github"
	"golang.org/x/mod/semver"

	"github.com/appthrust/capt/dev/revision"
)

const (
	owner, repository = "appthrust", "capt"
	// checksums is the file with the SHA-256 sums of the other files.
	checksums = "checksums.txt"
)

// required are the files without which a release cannot be installed.
var required = []string{
	"install.yaml", "infrastructure-components.yaml", "control-plane-components.yaml", "bootstrap-components.yaml",
	"addon-components.yaml", "metadata.yaml",
}

// publish creates the release on GitHub, or completes it.
func (r *release) publish(ctx context.Context) error {
	if r.dryRun {
		return r.preview(ctx)
	}
	if err := r.check(ctx); err != nil {
		return err
	}
	notes, err := r.notes()
	if err != nil {
		return err
	}
	assets, err := r.assets()
	if err != nil {
		return err
	}
	commit, err := revision.Git(ctx, r.root, "rev-parse", "HEAD")
	if err != nil {
		return err
	}
	client, err := newClient()
	if err != nil {
		return err
	}
	published, err := r.ensureRelease(ctx, client, strings.TrimSpace(commit), notes)
	if err != nil {
		return err
	}
	for _, asset := range assets {
		if err := r.ensureAsset(ctx, client, published, asset); err != nil {
			return err
		}
	}
	r.printf("Release %s: %s", r.tag(), published.GetHTMLURL())
	return nil
}

// preview prints what publish would do, and what is missing for it.
func (r *release) preview(ctx context.Context) error {
	if err := revision.RequireClean(ctx, r.root); err != nil {
		return err
	}
	commit, err := revision.Git(ctx, r.root, "rev-parse", "HEAD")
	if err != nil {
		return err
	}
	r.printf("Release %s of commit %s would be created on GitHub", r.tag(), strings.TrimSpace(commit))
	if err := r.check(ctx); err != nil {
		r.printf("First: %v", err)
	}
	assets, err := r.assets()
	if err != nil {
		r.printf("First: %v", err)
	}
	for _, asset := range assets {
		r.printf("  %s", filepath.Base(asset))
	}
	if notes, err := r.notes(); err == nil {
		r.printf("\n%s", notes)
	}
	return nil
}

func newClient() (*github.Client, error) {
	token := os.Getenv("GITHUB_TOKEN")
	if token == "" {
		return nil, errors.New("GITHUB_TOKEN is missing: set it to a token that may write releases, or use DRY_RUN=1")
	}
	client := github.NewClient(nil).WithAuthToken(token)
	api := os.Getenv("GITHUB_API_URL")
	if api == "" {
		return client, nil
	}
	return client.WithEnterpriseURLs(api, api)
}

// assets returns the paths of the files of the release, and writes their checksums.
func (r *release) assets() ([]string, error) {
	dir := filepath.Join(r.root, r.dist)
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("listing the files of the release: %w", err)
	}
	var names []string
	for _, entry := range entries {
		if entry.Type().IsRegular() && entry.Name() != checksums {
			names = append(names, entry.Name())
		}
	}
	for _, name := range required {
		if !slices.Contains(names, name) {
			return nil, fmt.Errorf("%s is missing: run make build-installer VERSION=%s", filepath.Join(r.dist, name), r.version)
		}
	}
	var paths []string
	var sums strings.Builder
	for _, name := range names {
		content, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", name, err)
		}
		sum := sha256.Sum256(content)
		fmt.Fprintf(&sums, "%s  %s\n", hex.EncodeToString(sum[:]), name)
		paths = append(paths, filepath.Join(dir, name))
	}
	if r.dryRun {
		return paths, nil
	}
	path := filepath.Join(dir, checksums)
	if err := os.WriteFile(path, []byte(sums.String()), 0o644); err != nil {
		return nil, fmt.Errorf("writing the checksums: %w", err)
	}
	return append(paths, path), nil
}

// ensureRelease creates the release unless it exists.
func (r *release) ensureRelease(ctx context.Context, client *github.Client, commit, notes string) (*github.RepositoryRelease, error) {
	existing, response, err := client.Repositories.GetReleaseByTag(ctx, owner, repository, r.tag())
	if err == nil {
		r.printf("Release %s exists", r.tag())
		return existing, nil
	}
	if response == nil || response.StatusCode != http.StatusNotFound {
		return nil, fmt.Errorf("reading release %s: %w", r.tag(), err)
	}
	created, _, err := client.Repositories.CreateRelease(ctx, owner, repository, &github.RepositoryRelease{
		TagName: new(r.tag()), TargetCommitish: &commit, Name: new(r.tag()), Body: &notes,
		Prerelease: new(semver.Prerelease(r.tag()) != ""),
	})
	if err != nil {
		return nil, fmt.Errorf("creating release %s: %w", r.tag(), err)
	}
	return created, nil
}

// ensureAsset uploads a file unless the release has it. A file of another size is
// replaced.
func (r *release) ensureAsset(ctx context.Context, client *github.Client, published *github.RepositoryRelease, path string) error {
	name := filepath.Base(path)
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("reading %s: %w", name, err)
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return fmt.Errorf("reading %s: %w", name, err)
	}
	for _, asset := range published.Assets {
		if asset.GetName() != name {
			continue
		}
		if int64(asset.GetSize()) == info.Size() && asset.GetState() == "uploaded" {
			r.printf("%s: uploaded before", name)
			return nil
		}
		if _, err := client.Repositories.DeleteReleaseAsset(ctx, owner, repository, asset.GetID()); err != nil {
			return fmt.Errorf("replacing %s: %w", name, err)
		}
	}
	if _, _, err := client.Repositories.UploadReleaseAsset(ctx, owner, repository, published.GetID(), &github.UploadOptions{Name: name}, file); err != nil {
		return fmt.Errorf("uploading %s: %w", name, err)
	}
	r.printf("%s: uploaded", name)
	return nil
}
