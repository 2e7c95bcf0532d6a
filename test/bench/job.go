package main

import (
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/testenv"
)

// jobReport compares a run as a Job with the plain tool. Both have the provider
// installed, and apply one workspace after the other.
type jobReport struct {
	// Skipped is why nothing was measured.
	Skipped string `json:"skipped,omitempty"`
	// Ratio is that of the times of the first run of a workspace, from its creation
	// until it is ready: the median of the rounds. RatioInterval has the lowest and the highest.
	Ratio         float64   `json:"ratio,omitempty"`
	RatioInterval []float64 `json:"ratioInterval,omitempty"`
	JobSeconds    float64   `json:"jobSeconds,omitempty"`
	BareSeconds   float64   `json:"bareSeconds,omitempty"`
	// UninstalledSeconds is the time of a run as a Job that unpacks the provider from an
	// archive on its node. A real one also downloads the archive.
	UninstalledSeconds float64   `json:"uninstalledSeconds,omitempty"`
	Provider           string    `json:"provider,omitempty"`
	ProviderMiB        float64   `json:"providerMiB,omitempty"`
	Jobs               []float64 `json:"jobs,omitempty"`
	Bare               []float64 `json:"bare,omitempty"`
	Uninstalled        []float64 `json:"uninstalled,omitempty"`
	// JobPeakMiB and BarePeakMiB are the most memory that the processes of one run had at
	// a time, with the provider installed.
	JobPeakMiB  float64 `json:"jobPeakMiB,omitempty"`
	BarePeakMiB float64 `json:"barePeakMiB,omitempty"`
}

func (r *jobReport) show(b *strings.Builder) {
	if r.Skipped != "" {
		fmt.Fprintf(b, "A run as a Job\tnot measured: %s\t\t\t\n", r.Skipped)
		return
	}
	fmt.Fprintf(b, "A run as a Job, %s installed (median of %d)\t%.2fs\tbare tool\t%.2fs\t%.2f\n", r.Provider, len(r.Jobs), r.JobSeconds, r.BareSeconds, r.Ratio)
	fmt.Fprintf(b, "  that unpacks the provider (%.0f MiB) itself\t%.2fs\tbare tool\t%.2fs\t%.2f\n", r.ProviderMiB, r.UninstalledSeconds, r.BareSeconds, r.UninstalledSeconds/r.BareSeconds)
	fmt.Fprintf(b, "  peak memory of a run\t%.0f MiB\tbare tool\t%.0f MiB\t%.2f\n", r.JobPeakMiB, r.BarePeakMiB, r.JobPeakMiB/r.BarePeakMiB)
	fmt.Fprintf(b, "  against the goal\t%.2f\tat most\t%.2f\t%.2f\n", r.Ratio, targetJob, r.Ratio/targetJob)
}

// benchProvider is a provider that runs use, and a module that needs it but no network.
type benchProvider struct {
	testenv.Provider
	module string
}

// providers are the providers in the order of preference. The first one that is built is
// measured.
var providers = []benchProvider{
	{testenv.AWSProvider, `
provider "aws" {
  region                      = "eu-central-1"
  access_key                  = "bench"
  secret_key                  = "bench"
  skip_credentials_validation = true
  skip_metadata_api_check     = true
  skip_region_validation      = true
  skip_requesting_account_id  = true
}
data "aws_iam_policy_document" "this" {
  statement {
    actions   = ["s3:GetObject"]
    resources = ["arn:aws:s3:::${var.name}/*"]
  }
}
resource "terraform_data" "this" { input = data.aws_iam_policy_document.this.json }
`},
	{testenv.LocalProvider, `
resource "local_file" "this" {
  filename = "${path.module}/${var.name}"
  content  = var.name
}
resource "terraform_data" "this" { input = local_file.this.content }
`},
}

func (p benchProvider) text() string {
	return fmt.Sprintf(`variable "name" { type = string }
terraform {
  required_providers {
    %s = {
      source  = "hashicorp/%[1]s"
      version = "%s"
    }
  }
}
%s
output "name" { value = terraform_data.this.output }
`, p.Name, p.Version, p.module)
}

func (p benchProvider) archive() string {
	return filepath.Join("registry.opentofu.org", "hashicorp", p.Name, fmt.Sprintf("terraform-provider-%s_%s_%s_%s.zip", p.Name, p.Version, runtime.GOOS, runtime.GOARCH))
}

const (
	installedImage   = "capt.test/runner:installed"
	uninstalledImage = "capt.test/runner:uninstalled"
	// podConfig is the path of the tool's configuration in both images.
	podConfig = "/etc/tofurc"
)

// jobBench is a node with the images.
type jobBench struct {
	*harness
	provider benchProvider
	report   *jobReport
}

// measureJob measures runs as Jobs on a real node, and the plain tool, alternately.
func measureJob(ctx context.Context) (*jobReport, error) {
	if missing := testenv.MissingForNode(); missing != "" {
		logf("job: skipped: %s", missing)
		return &jobReport{Skipped: missing}, nil
	}
	logf("job: starting the API server and the node")
	env, err := testenv.Start(testenv.WithNode())
	if err != nil {
		return nil, err
	}
	defer stopQuietly(env)
	h, err := newHarness(env)
	if err != nil {
		return nil, err
	}
	b := &jobBench{harness: h, report: &jobReport{}}
	if err := b.prepare(); err != nil {
		return nil, err
	}
	m, err := h.startManager("--executor=job", "--runner-image="+installedImage)
	if err != nil {
		return nil, err
	}
	defer m.stop()
	if err := m.waitSettled(ctx); err != nil {
		return nil, err
	}
	for round := range rounds {
		turns := []func() error{
			func() error { return b.job(ctx, installedImage, &b.report.Jobs) },
			func() error { return b.bare(ctx, &b.report.Bare) },
			func() error { return b.job(ctx, uninstalledImage, &b.report.Uninstalled) },
		}
		if round%2 == 1 {
			slices.Reverse(turns)
		}
		for _, turn := range turns {
			if err := turn(); err != nil {
				return nil, err
			}
		}
	}
	if err := b.samplePeaks(ctx); err != nil {
		return nil, err
	}
	r := b.report
	r.JobSeconds, r.BareSeconds, r.UninstalledSeconds = median(r.Jobs), median(r.Bare), median(r.Uninstalled)
	r.Ratio, r.RatioInterval = compare(r.Jobs, r.Bare)
	return r, nil
}

// samplePeaks measures the memory of runs in another round, because sampling delays them.
func (b *jobBench) samplePeaks(ctx context.Context) error {
	memory := startPeak(b.env.Dir)
	err := b.job(ctx, installedImage, new([]float64))
	b.report.JobPeakMiB = memory.end()
	if err != nil {
		return err
	}
	memory = startPeak(b.env.Dir)
	err = b.bare(ctx, new([]float64))
	b.report.BarePeakMiB = memory.end()
	return err
}

// prepare creates the images and the directory of the plain tool's provider.
func (b *jobBench) prepare() error {
	var program string
	for _, p := range providers {
		if found, err := testenv.Part(p.Part); err == nil {
			if program, err = filepath.EvalSymlinks(found); err != nil {
				return fmt.Errorf("finding a provider: %w", err)
			}
			b.provider = p
			break
		}
	}
	if program == "" {
		return errors.New("finding a provider: run `make parts`")
	}
	info, err := os.Stat(program)
	if err != nil {
		return fmt.Errorf("finding a provider: %w", err)
	}
	b.report.Provider, b.report.ProviderMiB = "hashicorp/"+b.provider.Name+" "+b.provider.Version, float64(info.Size())/(1<<20)
	runner, err := testenv.Built("runner")
	if err != nil {
		return err
	}
	archive := filepath.Join(b.env.Dir, "provider.zip")
	if err := zipFile(archive, filepath.Base(b.provider.Path()), program); err != nil {
		return err
	}
	logf("job: packing the images with %s, %.0f MiB", b.report.Provider, b.report.ProviderMiB)
	for image, source := range map[string]map[string]string{
		installedImage:   {"/providers/" + b.provider.Path(): program},
		uninstalledImage: {"/archives/" + b.provider.archive(): archive},
	} {
		directory := "/providers"
		if image == uninstalledImage {
			directory = "/archives"
		}
		config := filepath.Join(b.env.Dir, filepath.Base(image)+".tfrc")
		if err := testenv.WriteMirrorConfig(config, directory); err != nil {
			return err
		}
		source["/runner"], source["/usr/local/bin/tofu"], source[podConfig] = runner, b.tofu, config
		if err := b.env.Node().LoadImage(image, "/runner", source); err != nil {
			return err
		}
	}
	return b.installProvider(b.provider)
}

// zipFile writes an archive with one program.
func zipFile(path, name, program string) error {
	source, err := os.Open(program)
	if err != nil {
		return fmt.Errorf("reading the provider: %w", err)
	}
	defer source.Close()
	archive, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("creating an archive: %w", err)
	}
	z := zip.NewWriter(archive)
	header := &zip.FileHeader{Name: name, Method: zip.Deflate}
	header.SetMode(0o755)
	target, err := z.CreateHeader(header)
	if err == nil {
		_, err = io.Copy(target, source)
	}
	if err := errors.Join(err, z.Close(), archive.Close()); err != nil {
		return fmt.Errorf("writing an archive: %w", err)
	}
	return nil
}

// job measures from the creation of a workspace until it is ready.
func (b *jobBench) job(ctx context.Context, image string, results *[]float64) error {
	namespace, err := b.namespace(ctx)
	if err != nil {
		return err
	}
	runner := &infrav1.RunnerConfig{
		Image: image, ImagePullPolicy: corev1.PullNever, Env: []infrav1.RunnerEnvVar{{Name: "TF_CLI_CONFIG_FILE", Value: podConfig}},
	}
	if err := b.createTemplate(ctx, namespace, b.provider.text(), nil, runner); err != nil {
		return err
	}
	seconds, err := b.apply(ctx, namespace, 1)
	if err != nil {
		return err
	}
	*results = append(*results, seconds)
	logf("job: %s: %.2fs", image, seconds)
	return nil
}

// bare measures init and apply of the plain tool.
func (b *jobBench) bare(ctx context.Context, results *[]float64) error {
	namespace, err := b.namespace(ctx)
	if err != nil {
		return err
	}
	dir, err := b.writeBare(b.provider.text(), namespace, "job")
	if err != nil {
		return err
	}
	started := time.Now()
	if err := b.applyBare(ctx, dir, "bare", nil); err != nil {
		return err
	}
	seconds := time.Since(started).Seconds()
	*results = append(*results, seconds)
	logf("job: bare: %.2fs", seconds)
	return nil
}
