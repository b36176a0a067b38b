package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// The parts of SPDX 2.3 that are said here.
type spdxDocument struct {
	Version       string         `json:"spdxVersion"`
	License       string         `json:"dataLicense"`
	ID            string         `json:"SPDXID"`
	Name          string         `json:"name"`
	Namespace     string         `json:"documentNamespace"`
	Creation      spdxCreation   `json:"creationInfo"`
	Packages      []spdxPackage  `json:"packages"`
	Relationships []spdxRelation `json:"relationships"`
}

type spdxCreation struct {
	Created  string   `json:"created"`
	Creators []string `json:"creators"`
}

type spdxPackage struct {
	ID        string      `json:"SPDXID"`
	Name      string      `json:"name"`
	Version   string      `json:"versionInfo"`
	Location  string      `json:"downloadLocation"`
	Analyzed  bool        `json:"filesAnalyzed"`
	License   string      `json:"licenseConcluded"`
	Declared  string      `json:"licenseDeclared"`
	Copyright string      `json:"copyrightText"`
	Checksums []spdxSum   `json:"checksums,omitempty"`
	Refs      []spdxOther `json:"externalRefs,omitempty"`
}

type spdxSum struct {
	Algorithm string `json:"algorithm"`
	Value     string `json:"checksumValue"`
}

type spdxOther struct {
	Category string `json:"referenceCategory"`
	Type     string `json:"referenceType"`
	Locator  string `json:"referenceLocator"`
}

type spdxRelation struct {
	From string `json:"spdxElementId"`
	Kind string `json:"relationshipType"`
	To   string `json:"relatedSpdxElement"`
}

// contents writes the list of what is inside the programs of a package: the modules
// that the compiler has noted in them.
func (b *build) contents(p pkg, bin, arch string) (string, error) {
	const none = "NOASSERTION"
	whole := spdxPackage{ID: "SPDXRef-package", Name: p.name, Version: b.version, Location: homepage, License: license, Declared: license, Copyright: none}
	d := spdxDocument{
		Version: "SPDX-2.3", License: "CC0-1.0", ID: "SPDXRef-DOCUMENT", Name: p.name + "-" + b.version + "-" + arch,
		Namespace: fmt.Sprintf("%s/spdx/%s-%s-%s", homepage, p.name, b.version, arch),
		Creation:  spdxCreation{b.date.Format(time.RFC3339), []string{"Tool: hostler-packaging"}},
		Packages:  []spdxPackage{whole}, Relationships: []spdxRelation{{"SPDXRef-DOCUMENT", "DESCRIBES", whole.ID}},
	}
	for _, program := range slices.Concat(p.programs, p.helpers) {
		path := filepath.Join(bin, program)
		raw, err := os.ReadFile(path)
		if err != nil {
			return "", err
		}
		info, err := buildinfo.ReadFile(path)
		if err != nil {
			return "", err
		}
		sum := sha256.Sum256(raw)
		file := spdxPackage{ID: spdxID("program", program), Name: program, Version: b.version, Location: homepage, License: license, Declared: license, Copyright: none,
			Checksums: []spdxSum{{"SHA256", hex.EncodeToString(sum[:])}}}
		d.Packages = append(d.Packages, file)
		d.Relationships = append(d.Relationships, spdxRelation{whole.ID, "CONTAINS", file.ID})
		d.add(file.ID, "std", strings.TrimPrefix(info.GoVersion, "go"), "")
		for _, m := range info.Deps {
			if m.Replace != nil {
				m = m.Replace
			}
			d.add(file.ID, m.Path, m.Version, m.Sum)
		}
	}
	text, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		return "", err
	}
	name := fmt.Sprintf("%s_%s_%s.spdx.json", p.name, b.version, arch)
	return filepath.Join(b.out, name), os.WriteFile(filepath.Join(b.out, name), append(text, '\n'), 0o644)
}

// add notes a module that a program is made of.
func (d *spdxDocument) add(program, module, version, sum string) {
	const none = "NOASSERTION"
	m := spdxPackage{ID: spdxID("module", module+"-"+version), Name: module, Version: version, Location: none, License: none, Declared: none, Copyright: none,
		Refs: []spdxOther{{"PACKAGE-MANAGER", "purl", "pkg:golang/" + module + "@" + version}}}
	if h1, ok := strings.CutPrefix(sum, "h1:"); ok {
		if raw, err := base64.StdEncoding.DecodeString(h1); err == nil {
			m.Checksums = []spdxSum{{"SHA256", hex.EncodeToString(raw)}}
		}
	}
	if !slices.ContainsFunc(d.Packages, func(p spdxPackage) bool { return p.ID == m.ID }) {
		d.Packages = append(d.Packages, m)
	}
	d.Relationships = append(d.Relationships, spdxRelation{program, "STATIC_LINK", m.ID})
}

// spdxID makes an id of the letters that are allowed.
func spdxID(kind, name string) string {
	return "SPDXRef-" + kind + "-" + regexp.MustCompile(`[^A-Za-z0-9.-]`).ReplaceAllString(name, "-")
}
