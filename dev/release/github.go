package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/go-github/v82/github"
	"golang.org/x/mod/semver"

	"github.com/appthrust/capt/dev/revision"
)

const owner, repository = "appthrust", "capt"

// publish creates the release on GitHub, or completes it. It stays a draft until it has
// every file. A published release is not changed.
func (r *release) publish(ctx context.Context) error {
	if r.dryRun {
		return r.preview(ctx)
	}
	r.tagged = true
	if err := r.check(ctx); err != nil {
		return err
	}
	notes, err := r.notes()
	if err != nil {
		return err
	}
	assets, err := r.assets(ctx)
	if err != nil {
		return err
	}
	client, err := newClient()
	if err != nil {
		return err
	}
	if err := r.requireRemoteTag(ctx, client); err != nil {
		return err
	}
	found, err := r.findRelease(ctx, client)
	if err != nil {
		return err
	}
	if found != nil && !found.GetDraft() {
		return r.requireEqual(found, assets)
	}
	if found == nil {
		if found, _, err = client.Repositories.CreateRelease(ctx, owner, repository, r.description(notes, true)); err != nil {
			return fmt.Errorf("creating release %s: %w", r.tag(), err)
		}
	}
	if err := r.upload(ctx, client, found, assets); err != nil {
		return err
	}
	published, _, err := client.Repositories.EditRelease(ctx, owner, repository, found.GetID(), r.description(notes, false))
	if err != nil {
		return fmt.Errorf("publishing release %s: %w", r.tag(), err)
	}
	r.printf("Release %s: %s", r.tag(), published.GetHTMLURL())
	return nil
}

// preview prints what publish would do. It returns an error if something is missing.
func (r *release) preview(ctx context.Context) error {
	if err := revision.RequireClean(ctx, r.root); err != nil {
		return err
	}
	commit, err := r.head(ctx)
	if err != nil {
		return err
	}
	r.printf("Release %s of commit %s would be created on GitHub", r.tag(), commit)
	assets, err := r.assets(ctx)
	for _, name := range slices.Sorted(maps.Keys(assets)) {
		r.printf("  %s", name)
	}
	if notes, err := r.notes(); err == nil {
		r.printf("\n%s", notes)
	}
	return errors.Join(r.check(ctx), err)
}

// publicAPI is the address of GitHub itself, which GitHub Actions sets in every step.
// Files are uploaded to another host.
const publicAPI = "https://api.github.com"

func newClient() (*github.Client, error) {
	token := os.Getenv("GITHUB_TOKEN")
	if token == "" {
		return nil, errors.New("GITHUB_TOKEN is missing: set it to a token that may write releases, or use DRY_RUN=1")
	}
	client := github.NewClient(nil).WithAuthToken(token)
	api := strings.TrimSuffix(os.Getenv("GITHUB_API_URL"), "/")
	if api == "" || api == publicAPI {
		return client, nil
	}
	return client.WithEnterpriseURLs(api, api)
}

// description returns the fields of the release.
func (r *release) description(notes string, draft bool) *github.RepositoryRelease {
	return &github.RepositoryRelease{
		TagName: new(r.tag()), Name: new(r.tag()), Body: &notes, Draft: &draft,
		Prerelease: new(semver.Prerelease(r.tag()) != ""),
		// A fix of an earlier series must not become the latest release.
		MakeLatest: new("legacy"),
	}
}

// requireRemoteTag returns an error unless the tag on GitHub is this commit.
func (r *release) requireRemoteTag(ctx context.Context, client *github.Client) error {
	commit, err := r.head(ctx)
	if err != nil {
		return err
	}
	remote, _, err := client.Repositories.GetCommitSHA1(ctx, owner, repository, "tags/"+r.tag(), "")
	if err != nil {
		return fmt.Errorf("reading tag %s on GitHub (push it first): %w", r.tag(), err)
	}
	if remote != commit {
		return fmt.Errorf("tag %s on GitHub is commit %s, not %s", r.tag(), remote, commit)
	}
	return nil
}

// findRelease returns the release, which may be a draft, or nil. GitHub finds only
// published releases by their tag.
func (r *release) findRelease(ctx context.Context, client *github.Client) (*github.RepositoryRelease, error) {
	var found *github.RepositoryRelease
	options := &github.ListOptions{PerPage: 100}
	for {
		page, response, err := client.Repositories.ListReleases(ctx, owner, repository, options)
		if err != nil {
			return nil, fmt.Errorf("listing the releases: %w", err)
		}
		for _, candidate := range page {
			if candidate.GetTagName() == r.tag() && (found == nil || found.GetDraft()) {
				found = candidate
			}
		}
		if response.NextPage == 0 {
			return found, nil
		}
		options.Page = response.NextPage
	}
}

// requireEqual returns an error unless a published release has exactly the files. The
// signature may be another one, of the same checksums.
func (r *release) requireEqual(published *github.RepositoryRelease, assets map[string]string) error {
	different := differingAssets(published.Assets, assets)
	different = slices.DeleteFunc(different, func(name string) bool { return name == signatureFile })
	if len(different) > 0 {
		return fmt.Errorf("release %s is published with other files (%s): release another version", r.tag(), strings.Join(different, ", "))
	}
	r.printf("Release %s exists: %s", r.tag(), published.GetHTMLURL())
	return nil
}

// differingAssets returns the names of files that a release lacks, has in addition, or
// has with another content.
func differingAssets(have []*github.ReleaseAsset, want map[string]string) []string {
	seen := map[string]bool{}
	var names []string
	for _, asset := range have {
		seen[asset.GetName()] = true
		if want[asset.GetName()] == "" || asset.GetDigest() != "sha256:"+want[asset.GetName()] {
			names = append(names, asset.GetName())
		}
	}
	for name := range want {
		if !seen[name] {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// upload makes a draft contain exactly the files.
func (r *release) upload(ctx context.Context, client *github.Client, draft *github.RepositoryRelease, assets map[string]string) error {
	different := differingAssets(draft.Assets, assets)
	for _, asset := range draft.Assets {
		if !slices.Contains(different, asset.GetName()) {
			continue
		}
		if _, err := client.Repositories.DeleteReleaseAsset(ctx, owner, repository, asset.GetID()); err != nil {
			return fmt.Errorf("replacing %s: %w", asset.GetName(), err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(assets)) {
		if !slices.Contains(different, name) {
			r.printf("%s: uploaded before", name)
			continue
		}
		if err := r.uploadFile(ctx, client, draft, name); err != nil {
			return err
		}
		r.printf("%s: uploaded", name)
	}
	// GitHub computes the checksums of what it has received.
	uploaded, _, err := client.Repositories.ListReleaseAssets(ctx, owner, repository, draft.GetID(), &github.ListOptions{PerPage: 100})
	if err != nil {
		return fmt.Errorf("listing the files of release %s: %w", r.tag(), err)
	}
	if different := differingAssets(uploaded, assets); len(different) > 0 {
		return fmt.Errorf("files of the draft of %s differ from what was uploaded (%s): repeat this step", r.tag(), strings.Join(different, ", "))
	}
	return nil
}

func (r *release) uploadFile(ctx context.Context, client *github.Client, draft *github.RepositoryRelease, name string) error {
	file, err := os.Open(filepath.Join(r.root, r.dist, name))
	if err != nil {
		return fmt.Errorf("reading %s: %w", name, err)
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return fmt.Errorf("reading %s: %w", name, err)
	}
	// The address is that of the answer, because it is on another host than the API.
	if _, _, err := client.Repositories.UploadReleaseAssetFromRelease(ctx, draft, &github.UploadOptions{Name: name}, file, info.Size()); err != nil {
		return fmt.Errorf("uploading %s: %w", name, err)
	}
	return nil
}
