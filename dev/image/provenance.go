package main

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"os"
	"runtime"
	"strings"
	"time"
)

// The types of an in-toto statement with SLSA provenance v1, as far as they are used.
type (
	statement struct {
		Type          string     `json:"_type"`
		Subject       []resource `json:"subject"`
		PredicateType string     `json:"predicateType"`
		Predicate     predicate  `json:"predicate"`
	}
	resource struct {
		Name   string            `json:"name,omitempty"`
		URI    string            `json:"uri,omitempty"`
		Digest map[string]string `json:"digest,omitempty"`
	}
	predicate struct {
		BuildDefinition buildDefinition `json:"buildDefinition"`
		RunDetails      runDetails      `json:"runDetails"`
	}
	buildDefinition struct {
		BuildType            string            `json:"buildType"`
		ExternalParameters   map[string]any    `json:"externalParameters"`
		InternalParameters   map[string]string `json:"internalParameters"`
		ResolvedDependencies []resource        `json:"resolvedDependencies"`
	}
	runDetails struct {
		Builder struct {
			ID string `json:"id"`
		} `json:"builder"`
		Metadata struct {
			InvocationID string `json:"invocationId,omitempty"`
		} `json:"metadata"`
	}
)

// provenance returns the statement how an index was built. It contains no time, so that
// two builds on the same builder result in the same statement.
func (b *builder) provenance(image *built, inputs []component) ([]byte, error) {
	digest, err := image.index.Digest()
	if err != nil {
		return nil, err
	}
	s := statement{
		Type: "https://in-toto.io/Statement/v1", PredicateType: "https://slsa.dev/provenance/v1",
		Subject: []resource{{Name: image.name, Digest: map[string]string{digest.Algorithm: digest.Hex}}},
	}
	var platforms []string
	for _, p := range image.platforms {
		digest, err := p.image.Digest()
		if err != nil {
			return nil, err
		}
		platforms = append(platforms, p.platform.String())
		s.Subject = append(s.Subject, resource{Name: image.name + " " + p.platform.String(), Digest: map[string]string{digest.Algorithm: digest.Hex}})
	}
	s.Predicate.BuildDefinition = buildDefinition{
		BuildType:          b.builderID(),
		ExternalParameters: map[string]any{"version": b.version, "image": image.name, "platforms": platforms},
		InternalParameters: map[string]string{
			"go": runtime.Version(), "sourceDateEpoch": b.source.Time.Format(time.RFC3339), "workTree": b.source.Description(),
		},
		ResolvedDependencies: append([]resource{{
			URI: "git+" + repository, Digest: map[string]string{"gitCommit": b.source.Commit},
		}}, dependencies(inputs)...),
	}
	s.Predicate.RunDetails.Builder.ID = b.builderID()
	// GitHub Actions identifies the workflow and its run.
	if workflow := os.Getenv("GITHUB_WORKFLOW_REF"); workflow != "" {
		server := os.Getenv("GITHUB_SERVER_URL") + "/"
		s.Predicate.RunDetails.Builder.ID = server + workflow
		s.Predicate.RunDetails.Metadata.InvocationID = server + os.Getenv("GITHUB_REPOSITORY") + "/actions/runs/" + os.Getenv("GITHUB_RUN_ID")
	}
	return json.Marshal(s)
}

// builderID returns the program that builds images, in the commit that it is built of.
func (b *builder) builderID() string { return repository + "/tree/" + b.source.Commit + "/dev/image" }

// moduleDigest returns the checksum of a Go module in the notation of in-toto.
func moduleDigest(sum string) map[string]string {
	encoded, found := strings.CutPrefix(sum, "h1:")
	digest, err := base64.StdEncoding.DecodeString(encoded)
	if !found || err != nil {
		return nil
	}
	return map[string]string{"dirHash1": hex.EncodeToString(digest)}
}

// dependencies returns what was not built from the commit: Debian's packages and the
// modules of the programs, each once.
func dependencies(inputs []component) []resource {
	seen := map[string]bool{}
	var list []resource
	for _, c := range inputs {
		if c.purl == "" || seen[c.purl] || strings.HasPrefix(c.purl, "pkg:golang/github.com/appthrust/capt@") {
			continue
		}
		seen[c.purl] = true
		r := resource{Name: c.name, URI: c.purl}
		// The checksum of a program is that of a result, not of an input.
		if c.sha256 != "" && strings.HasPrefix(c.purl, "pkg:deb/") {
			r.Digest = map[string]string{"sha256": c.sha256}
		} else if c.sum != "" {
			r.Digest = moduleDigest(c.sum)
		}
		list = append(list, r)
	}
	return list
}
