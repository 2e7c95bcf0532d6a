package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	chartcommon "helm.sh/helm/v4/pkg/chart/common"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	helmregistry "helm.sh/helm/v4/pkg/registry"
	"oras.land/oras-go/v2/errdef"
)

// loadOwn reads a chart of this repository. A version other than "" replaces its own.
func loadOwn(dir, version string) (*chart.Chart, error) {
	files, err := chartFiles(dir)
	if err != nil {
		return nil, fmt.Errorf("reading the chart: %w", err)
	}
	c, err := loader.LoadFiles(files)
	if err != nil {
		return nil, fmt.Errorf("reading the chart: %w", err)
	}
	c.ModTime = epoch
	if version != "" {
		c.Metadata.Version, c.Metadata.AppVersion = version, "v"+version
	}
	return c, nil
}

// built are images that were built beside a chart.
type built struct {
	// record is a file of dev/revision with their digests. Without one, they are not pinned.
	record string
	// commit is that of the chart.
	commit string
}

// digests returns the digests of the images of a version, with v, by their names. In a
// checkout there are none: images are loaded by their tags.
func (b built) digests(version string) (map[string]string, error) {
	if b.record == "" || strings.HasSuffix(version, "-dev") {
		return nil, nil
	}
	text, err := os.ReadFile(b.record)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the images: %w", err)
	}
	var record struct {
		Version, Commit string
		Images          map[string]string
	}
	if err := json.Unmarshal(text, &record); err != nil {
		return nil, fmt.Errorf("parsing %s: %w", b.record, err)
	}
	if record.Version != version || record.Commit != b.commit {
		return nil, nil
	}
	return record.Images, nil
}

// pin adds the digests of the images that the values name to the annotations of a chart.
func pin(c *chart.Chart, digests map[string]string) {
	for name, digest := range digests {
		repository, found := strings.CutSuffix(name, ":"+c.Metadata.AppVersion)
		for _, path := range []string{"image", "runnerImage", "ui.image"} {
			values, err := chartcommon.Values(c.Values).Table(path)
			if err != nil || !found || values["repository"] != repository {
				continue
			}
			if c.Metadata.Annotations == nil {
				c.Metadata.Annotations = map[string]string{}
			}
			c.Metadata.Annotations["capt.appthrust.io/"+repository[strings.LastIndex(repository, "/")+1:]+"-digest"] = digest
		}
	}
}

// packOwn packs a chart of this repository after it has checked it, with the digests of its
// images.
func packOwn(dir, version, out string, images built) error {
	if err := lintOwn(dir); err != nil {
		return err
	}
	c, err := loadOwn(dir, version)
	if err != nil {
		return err
	}
	digests, err := images.digests(c.Metadata.AppVersion)
	if err != nil {
		return err
	}
	pin(c, digests)
	if err := os.MkdirAll(out, 0o755); err != nil {
		return fmt.Errorf("creating the directory of charts: %w", err)
	}
	old, err := filepath.Glob(filepath.Join(out, c.Name()+"-*.tgz"))
	if err != nil {
		return fmt.Errorf("finding earlier packages: %w", err)
	}
	for _, path := range old {
		if err := os.Remove(path); err != nil {
			return fmt.Errorf("removing an earlier package: %w", err)
		}
	}
	_, err = save(c, out)
	return err
}

// pushOwn pushes a packed chart to a registry, and returns its name with its digest. A
// version that exists with other content is not changed.
func pushOwn(path, registry string, plainHTTP bool) (string, error) {
	options := []helmregistry.ClientOption{helmregistry.ClientOptWriter(io.Discard)}
	if plainHTTP {
		options = append(options, helmregistry.ClientOptPlainHTTP())
	}
	client, err := helmregistry.NewClient(options...)
	if err != nil {
		return "", fmt.Errorf("creating a registry client: %w", err)
	}
	packed, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("reading the chart: %w", err)
	}
	ref, err := reference(path, registry)
	if err != nil {
		return "", fmt.Errorf("reading the chart: %w", err)
	}
	existing, err := client.Resolve(ref)
	switch {
	case errors.Is(err, errdef.ErrNotFound):
		digest, err := push(client, path, registry)
		if err != nil {
			return "", fmt.Errorf("pushing %s: %w", filepath.Base(path), err)
		}
		return ref + "@" + digest, nil
	case err != nil:
		return "", fmt.Errorf("reading %s: %w", ref, err)
	}
	pulled, err := client.Pull(ref)
	if err != nil {
		return "", fmt.Errorf("reading %s: %w", ref, err)
	}
	if !bytes.Equal(pulled.Chart.Data, packed) {
		return "", fmt.Errorf("%s exists with other content: release another version", ref)
	}
	return ref + "@" + existing.Digest.String(), nil
}

// lintOwn does what helm lint --strict does.
func lintOwn(dir string) error {
	linter := lint.RunAll(dir, map[string]any{}, "capt-system")
	var problems []string
	for _, m := range linter.Messages {
		if m.Severity >= support.WarningSev {
			problems = append(problems, m.Error())
		}
	}
	if len(problems) > 0 {
		return errors.New("linting the chart: " + strings.Join(problems, "; "))
	}
	return nil
}
