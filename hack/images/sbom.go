package main

import (
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"

	spdxjson "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx/v2/common"
	spdx "github.com/spdx/tools-golang/spdx/v2/v2_3"
)

const unknown = "NOASSERTION"

// writeSBOM writes the packages of the image as an SPDX document.
func (i *image) writeSBOM(file string) error {
	return writeFile(file, func(out io.Writer) error { return spdxjson.Write(i.sbom(), out, spdxjson.Indent("  ")) })
}

// sbom returns the document. It has the digest of the image, and the time of its commit.
func (i *image) sbom() *spdx.Document {
	self := &spdx.Package{
		PackageName: i.reference, PackageSPDXIdentifier: "Package-image", PackageVersion: i.version,
		PackageDownloadLocation: unknown, PackageSourceInfo: "commit " + i.revision,
		PackageLicenseConcluded: unknown, PackageLicenseDeclared: "Apache-2.0", PackageCopyrightText: unknown,
		PrimaryPackagePurpose: "CONTAINER",
		PackageChecksums:      []common.Checksum{{Algorithm: common.SHA256, Value: i.digest.Hex}},
		PackageExternalReferences: []*spdx.PackageExternalReference{
			purl(fmt.Sprintf("pkg:oci/%s@%s?repository_url=docker.io/mediastack/%s&tag=%s", i.name, strings.ReplaceAll(i.digest.String(), ":", "%3A"), i.name, i.version)),
		},
	}
	document := &spdx.Document{
		SPDXVersion: spdx.Version, DataLicense: spdx.DataLicense, SPDXIdentifier: "DOCUMENT",
		DocumentName:      "mediastack-" + i.name + "-" + i.version,
		DocumentNamespace: fmt.Sprintf("%s/spdx/%s-%s-%s", sourceURL, i.name, i.version, i.digest.Hex),
		CreationInfo:      &spdx.CreationInfo{Created: i.created.Format(time.RFC3339), Creators: []common.Creator{{CreatorType: "Tool", Creator: "mediastack-images-" + i.version}}},
		Packages:          []*spdx.Package{self},
		Relationships:     []*spdx.Relationship{relationship("DOCUMENT", "DESCRIBES", self.PackageSPDXIdentifier)},
	}
	add := func(p *spdx.Package) {
		document.Packages = append(document.Packages, p)
		document.Relationships = append(document.Relationships, relationship(self.PackageSPDXIdentifier, "CONTAINS", p.PackageSPDXIdentifier))
	}
	for _, p := range i.packages {
		add(p.spdx())
	}
	for _, m := range i.modules {
		add(m.spdx())
	}
	return document
}

func relationship(from common.ElementID, kind string, to common.ElementID) *spdx.Relationship {
	return &spdx.Relationship{RefA: common.DocElementID{ElementRefID: from}, Relationship: kind, RefB: common.DocElementID{ElementRefID: to}}
}

func purl(locator string) *spdx.PackageExternalReference {
	return &spdx.PackageExternalReference{Category: "PACKAGE-MANAGER", RefType: "purl", Locator: locator}
}

var notInID = regexp.MustCompile(`[^A-Za-z0-9.-]+`)

func elementID(kind, name string) common.ElementID {
	return common.ElementID("Package-" + kind + "-" + notInID.ReplaceAllString(name, "-"))
}

// escape encodes the version of a package for its package URL.
func escape(version string) string {
	return strings.NewReplacer("%", "%25", "+", "%2B", ":", "%3A", "~", "~").Replace(version)
}

// spdx returns the entry of a Debian package. Its copyright file, which is in the image, has
// licenses for each of its files, which no single expression states.
func (p debianPackage) spdx() *spdx.Package {
	return &spdx.Package{
		PackageName: p.name, PackageSPDXIdentifier: elementID("deb", p.name), PackageVersion: p.version,
		PackageDownloadLocation: unknown, PackageHomePage: p.homepage,
		PackageSourceInfo:       "built from the Debian source package " + p.source + " " + p.sourceVersion,
		PackageLicenseConcluded: unknown, PackageLicenseDeclared: unknown, PackageCopyrightText: unknown,
		PackageLicenseComments:    "/usr/share/doc/" + p.name + "/copyright",
		PackageComment:            p.comment,
		PackageExternalReferences: []*spdx.PackageExternalReference{purl(fmt.Sprintf("pkg:deb/debian/%s@%s?arch=%s", escape(p.name), escape(p.version), p.architecture))},
	}
}

// spdx returns the entry of a Go module.
func (m goModule) spdx() *spdx.Package {
	return &spdx.Package{
		PackageName: m.path, PackageSPDXIdentifier: elementID("go", m.path), PackageVersion: m.version,
		PackageDownloadLocation: unknown,
		PackageLicenseConcluded: unknown, PackageLicenseDeclared: m.declaredLicense(), PackageCopyrightText: unknown,
		PackageLicenseComments:    "/licenses/" + m.path + "@" + m.version,
		PackageExternalReferences: []*spdx.PackageExternalReference{purl(fmt.Sprintf("pkg:golang/%s@%s", m.path, escape(m.version)))},
	}
}
