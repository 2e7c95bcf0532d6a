package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

const (
	sbomType       = "application/spdx+json"
	provenanceType = "application/vnd.in-toto+json"
)

// attestation is an artifact that refers to an image or an index: an image manifest with
// an empty configuration, as OCI 1.1 defines. go-containerregistry builds only images
// with a configuration.
type attestation struct {
	manifest []byte
	layer    v1.Layer
}

var emptyConfig = []byte("{}")

// newAttestation returns the artifact that attaches content to a subject.
func newAttestation(subject partial.Describable, artifactType string, content []byte, annotations map[string]string) (v1.Image, error) {
	described, err := partial.Descriptor(subject)
	if err != nil {
		return nil, err
	}
	// Only these fields belong to the reference.
	descriptor := v1.Descriptor{MediaType: described.MediaType, Size: described.Size, Digest: described.Digest}
	layer := static.NewLayer(content, types.MediaType(artifactType))
	body, err := partial.Descriptor(layer)
	if err != nil {
		return nil, err
	}
	empty := static.NewLayer(emptyConfig, types.OCIEmptyJSON)
	config, err := partial.Descriptor(empty)
	if err != nil {
		return nil, err
	}
	manifest, err := json.Marshal(v1.Manifest{
		SchemaVersion: 2, MediaType: types.OCIManifestSchema1, ArtifactType: artifactType,
		Config: *config, Layers: []v1.Descriptor{*body}, Subject: &descriptor, Annotations: annotations,
	})
	if err != nil {
		return nil, err
	}
	return partial.CompressedToImage(&attestation{manifest: manifest, layer: layer})
}

// RawConfigFile implements partial.CompressedImageCore.
func (a *attestation) RawConfigFile() ([]byte, error) { return emptyConfig, nil }

// RawManifest implements partial.CompressedImageCore.
func (a *attestation) RawManifest() ([]byte, error) { return a.manifest, nil }

// MediaType implements partial.CompressedImageCore.
func (a *attestation) MediaType() (types.MediaType, error) { return types.OCIManifestSchema1, nil }

// LayerByDigest implements partial.CompressedImageCore.
func (a *attestation) LayerByDigest(v1.Hash) (partial.CompressedLayer, error) { return a.layer, nil }

// attestations returns the SBOM of each platform and the provenance of the index.
func (b *built) attestations(created string) ([]v1.Image, error) {
	var list []v1.Image
	annotations := map[string]string{"org.opencontainers.image.created": created}
	for _, p := range b.platforms {
		artifact, err := newAttestation(p.image, sbomType, p.sbom, annotations)
		if err != nil {
			return nil, fmt.Errorf("attaching the SBOM of %s: %w", b.name, err)
		}
		list = append(list, artifact)
	}
	artifact, err := newAttestation(b.index, provenanceType, b.provenance, annotations)
	if err != nil {
		return nil, fmt.Errorf("attaching the provenance of %s: %w", b.name, err)
	}
	return append(list, artifact), nil
}

// attestationDir is the directory of a layout with the attestations as files, which are
// signed when the images are published.
const attestationDir = "attestations"

// writeAttestations writes the predicate of each attestation, and a list with a line for
// each: its type as cosign calls it, the image, and the file.
func writeAttestations(dir string, outputs []output) error {
	dir = filepath.Join(dir, attestationDir)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	var list bytes.Buffer
	write := func(kind string, subject name.Digest, file string, predicate []byte) error {
		fmt.Fprintln(&list, kind, subject, file)
		return os.WriteFile(filepath.Join(dir, file), predicate, 0o644)
	}
	for _, o := range outputs {
		digest, err := o.built.index.Digest()
		if err != nil {
			return err
		}
		var provenance struct {
			Predicate json.RawMessage `json:"predicate"`
		}
		if err := json.Unmarshal(o.built.provenance, &provenance); err != nil {
			return err
		}
		if err := write("slsaprovenance1", o.tag.Digest(digest.String()), o.built.name+".provenance.json", provenance.Predicate); err != nil {
			return err
		}
		for _, p := range o.built.platforms {
			digest, err := p.image.Digest()
			if err != nil {
				return err
			}
			file := strings.TrimSuffix(archiveName(o, p.platform), ".tar") + ".spdx.json"
			if err := write("spdxjson", o.tag.Digest(digest.String()), file, p.sbom); err != nil {
				return err
			}
		}
	}
	return os.WriteFile(filepath.Join(dir, "list.txt"), list.Bytes(), 0o644)
}
