package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx"
	"github.com/spdx/tools-golang/spdx/v2/common"
)

const (
	ownLicense  = "MIT"
	noAssertion = "NOASSERTION"
)

// writeSPDX describes a binary, which users know by a name.
func writeSPDX(w io.Writer, path, name string) error {
	b, err := readBinary(path)
	if err != nil {
		return err
	}
	created, err := sourceDate()
	if err != nil {
		return err
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	hash := sha256.Sum256(content)
	sum := hex.EncodeToString(hash[:])
	version := os.Getenv("VERSION")
	if version == "" {
		return fmt.Errorf("VERSION, the version of %s, is not in the environment", b.module)
	}

	module := spdxPackage("module", b.module, version, ownLicense)
	module.PackageFileName = name
	module.PackageChecksums = []common.Checksum{{Algorithm: common.SHA256, Value: sum}}
	module.PrimaryPackagePurpose = "APPLICATION"
	if strings.HasSuffix(name, ".so") {
		module.PrimaryPackagePurpose = "LIBRARY"
	}
	doc := &spdx.Document{
		SPDXVersion:       spdx.Version,
		DataLicense:       spdx.DataLicense,
		SPDXIdentifier:    "DOCUMENT",
		DocumentName:      b.module + "-" + version,
		DocumentNamespace: "https://spdx.org/spdxdocs/" + b.module + "-" + version + "-" + sum,
		CreationInfo: &spdx.CreationInfo{
			Creators: []common.Creator{{CreatorType: "Tool", Creator: "redis-throttle-tools-sbom"}},
			Created:  created.Format(time.RFC3339),
		},
		Packages:      []*spdx.Package{module},
		Relationships: []*spdx.Relationship{related("DOCUMENT", "DESCRIBES", module.PackageSPDXIdentifier)},
	}
	for i, m := range b.modules {
		p := spdxPackage(fmt.Sprint("dependency-", i+1), m.path, m.version, m.license)
		p.PackageExternalReferences = []*spdx.PackageExternalReference{{
			Category: common.CategoryPackageManager,
			RefType:  common.TypePackageManagerPURL,
			Locator:  "pkg:golang/" + m.path + "@" + m.version,
		}}
		if m.sum != "" {
			p.PackageSourceInfo = "go.sum " + m.sum
		}
		doc.Packages = append(doc.Packages, p)
		doc.Relationships = append(doc.Relationships,
			related(module.PackageSPDXIdentifier, "STATIC_LINK", p.PackageSPDXIdentifier))
	}
	return json.Write(doc, w, json.Indent("  "))
}

func spdxPackage(id, name, version, license string) *spdx.Package {
	return &spdx.Package{
		PackageSPDXIdentifier:   common.ElementID(id),
		PackageName:             name,
		PackageVersion:          version,
		PackageDownloadLocation: noAssertion,
		PackageLicenseConcluded: license,
		PackageLicenseDeclared:  license,
		PackageCopyrightText:    noAssertion,
	}
}

func related(a common.ElementID, relationship string, b common.ElementID) *spdx.Relationship {
	return &spdx.Relationship{
		RefA:         common.MakeDocElementID("", string(a)),
		RefB:         common.MakeDocElementID("", string(b)),
		Relationship: relationship,
	}
}

func sourceDate() (time.Time, error) {
	seconds, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
	}
	return time.Unix(seconds, 0).UTC(), nil
}
