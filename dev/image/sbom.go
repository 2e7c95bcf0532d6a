package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// The types of an SPDX 2.3 document, as far as they are used.
type (
	spdxDocument struct {
		SPDXVersion       string             `json:"spdxVersion"`
		DataLicense       string             `json:"dataLicense"`
		SPDXID            string             `json:"SPDXID"`
		Name              string             `json:"name"`
		DocumentNamespace string             `json:"documentNamespace"`
		CreationInfo      spdxCreation       `json:"creationInfo"`
		Packages          []spdxPackage      `json:"packages"`
		Relationships     []spdxRelationship `json:"relationships"`
	}
	spdxCreation struct {
		Created  string   `json:"created"`
		Creators []string `json:"creators"`
	}
	spdxPackage struct {
		SPDXID           string          `json:"SPDXID"`
		Name             string          `json:"name"`
		VersionInfo      string          `json:"versionInfo,omitempty"`
		DownloadLocation string          `json:"downloadLocation"`
		FilesAnalyzed    bool            `json:"filesAnalyzed"`
		LicenseConcluded string          `json:"licenseConcluded"`
		LicenseDeclared  string          `json:"licenseDeclared"`
		CopyrightText    string          `json:"copyrightText"`
		Purpose          string          `json:"primaryPackagePurpose,omitempty"`
		Checksums        []spdxChecksum  `json:"checksums,omitempty"`
		ExternalRefs     []spdxReference `json:"externalRefs,omitempty"`
	}
	spdxChecksum struct {
		Algorithm string `json:"algorithm"`
		Value     string `json:"checksumValue"`
	}
	spdxReference struct {
		Category string `json:"referenceCategory"`
		Type     string `json:"referenceType"`
		Locator  string `json:"referenceLocator"`
	}
	spdxRelationship struct {
		Element string `json:"spdxElementId"`
		Type    string `json:"relationshipType"`
		Related string `json:"relatedSpdxElement"`
	}
)

const (
	noAssertion = "NOASSERTION"
	documentID  = "SPDXRef-DOCUMENT"
	imageID     = "SPDXRef-Image"
)

// sbom returns the SPDX document of the image of a platform.
func (b *builder) sbom(d definition, platform v1.Platform, image v1.Image, components []component) ([]byte, error) {
	digest, err := image.Digest()
	if err != nil {
		return nil, err
	}
	root := spdxEntry(imageID, component{
		name: d.name, version: b.version, sha256: digest.Hex,
		purl: fmt.Sprintf("pkg:oci/%s@%s?arch=%s&tag=%s", d.name, strings.ReplaceAll(digest.String(), ":", "%3A"), platform.Architecture, b.version),
	})
	root.Purpose = "CONTAINER"
	document := spdxDocument{
		SPDXVersion: "SPDX-2.3", DataLicense: "CC0-1.0", SPDXID: documentID,
		Name: fmt.Sprintf("%s %s %s", d.name, b.version, platform),
		// Unique for each image, and equal for equal images.
		DocumentNamespace: fmt.Sprintf("%s/sbom/%s/%s", repository, d.name, digest.Hex),
		CreationInfo:      spdxCreation{Created: b.source.Time.Format(time.RFC3339), Creators: []string{"Tool: capt-dev-image"}},
		Packages:          []spdxPackage{root},
		Relationships:     []spdxRelationship{{documentID, "DESCRIBES", imageID}},
	}
	programs := map[string]string{}
	for i, c := range components {
		id := fmt.Sprintf("SPDXRef-Package-%d", i)
		document.Packages = append(document.Packages, spdxEntry(id, c))
		relation := spdxRelationship{imageID, "CONTAINS", id}
		if c.program != "" {
			relation = spdxRelationship{programs[c.program], "DEPENDS_ON", id}
		} else {
			programs[c.name] = id
		}
		document.Relationships = append(document.Relationships, relation)
	}
	return json.Marshal(document)
}

func spdxEntry(id string, c component) spdxPackage {
	p := spdxPackage{
		SPDXID: id, Name: c.name, VersionInfo: c.version, DownloadLocation: noAssertion,
		LicenseConcluded: noAssertion, LicenseDeclared: noAssertion, CopyrightText: noAssertion,
	}
	if c.sha256 != "" {
		p.Checksums = []spdxChecksum{{"SHA256", c.sha256}}
	}
	if c.purl != "" {
		p.ExternalRefs = []spdxReference{{"PACKAGE-MANAGER", "purl", c.purl}}
	}
	return p
}
