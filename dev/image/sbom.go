package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/spdx/tools-golang/spdx/v2/common"
	spdx "github.com/spdx/tools-golang/spdx/v2/v2_3"
)

const (
	noAssertion = "NOASSERTION"
	// The identifiers in an SBOM, without their prefix.
	documentID = "DOCUMENT"
	imageID    = "Image"
)

// sbom returns the SPDX document of the image of a platform.
func (b *builder) sbom(d definition, platform v1.Platform, image v1.Image, components []component) ([]byte, error) {
	digest, err := image.Digest()
	if err != nil {
		return nil, err
	}
	root := spdxPackage(imageID, component{
		name: d.name, version: b.version, sha256: digest.Hex,
		purl: fmt.Sprintf("pkg:oci/%s@%s?arch=%s&tag=%s", d.name, strings.ReplaceAll(digest.String(), ":", "%3A"), platform.Architecture, b.version),
	})
	root.PrimaryPackagePurpose = "CONTAINER"
	document := spdx.Document{
		SPDXVersion: spdx.Version, DataLicense: spdx.DataLicense, SPDXIdentifier: documentID,
		DocumentName: fmt.Sprintf("%s %s %s", d.name, b.version, platform),
		// Unique for each image, and equal for equal images.
		DocumentNamespace: fmt.Sprintf("%s/sbom/%s/%s", repository, d.name, digest.Hex),
		CreationInfo:      &spdx.CreationInfo{Created: b.source.Time.Format(time.RFC3339), Creators: []common.Creator{{CreatorType: "Tool", Creator: "capt-dev-image"}}},
		Packages:          []*spdx.Package{root},
	}
	relate := func(from, kind, to string) {
		document.Relationships = append(document.Relationships, &spdx.Relationship{
			RefA: common.MakeDocElementID("", from), Relationship: kind, RefB: common.MakeDocElementID("", to),
		})
	}
	relate(documentID, common.TypeRelationshipDescribe, imageID)
	programs := map[string]string{}
	for i, c := range components {
		id := fmt.Sprintf("Package-%d", i)
		document.Packages = append(document.Packages, spdxPackage(id, c))
		if c.program != "" {
			relate(programs[c.program], common.TypeRelationshipDependsOn, id)
			continue
		}
		programs[c.name] = id
		relate(imageID, common.TypeRelationshipContains, id)
	}
	return json.Marshal(document)
}

func spdxPackage(id string, c component) *spdx.Package {
	p := &spdx.Package{
		PackageSPDXIdentifier: common.ElementID(id), PackageName: c.name, PackageVersion: c.version, PackageDownloadLocation: noAssertion,
		PackageLicenseConcluded: noAssertion, PackageLicenseDeclared: noAssertion, PackageCopyrightText: noAssertion,
	}
	if c.sha256 != "" {
		p.PackageChecksums = []common.Checksum{{Algorithm: common.SHA256, Value: c.sha256}}
	}
	if c.purl != "" {
		p.PackageExternalReferences = []*spdx.PackageExternalReference{{
			Category: common.CategoryPackageManager, RefType: common.TypePackageManagerPURL, Locator: c.purl,
		}}
	}
	return p
}
