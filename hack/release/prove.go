package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/sigstore/sigstore-go/pkg/sign"
)

// The files that are about the others.
const (
	sumsFile            = "SHA256SUMS"
	provenanceFile      = "provenance.json"
	signedProvenance    = "provenance.sigstore.json"
	signedSums          = "SHA256SUMS.sigstore.json"
	publicKeyFile       = "cosign.pub"
	listFile            = "images.txt"
	buildType           = "https://mediastack.dev/docs/reference/images#provenance"
	repository          = "git+https://mediastack.dev"
	unknownBuilder      = "https://mediastack.dev/builders/checkout"
	invocationReference = "make release"
)

// proveCommand writes the provenance and the checksums.
type proveCommand struct {
	Version   string   `required:"" help:"Version of the release."`
	Revision  string   `required:"" help:"Commit that it was built from; -dirty at its end says that files were changed."`
	Platforms []string `required:"" help:"Platforms that it has programs for."`
	Key       string   `help:"Private key; without it nothing is signed."`
	Builder   string   `help:"Who built it, as a URI."`
	Folder    string   `arg:"" type:"existingdir" help:"Folder of the release."`
}

// sums returns the files of a folder, in order, with their SHA-256.
func sums(folder string, without ...string) ([]subject, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	skip := map[string]bool{}
	for _, name := range without {
		skip[name] = true
	}
	var found []subject
	for _, entry := range entries {
		if skip[entry.Name()] {
			continue
		}
		if !entry.Type().IsRegular() {
			return nil, fmt.Errorf("%s is not a file", entry.Name())
		}
		file, err := os.Open(filepath.Join(folder, entry.Name()))
		if err != nil {
			return nil, err
		}
		hash := sha256.New()
		if _, err := io.Copy(hash, file); err != nil {
			return nil, errors.Join(err, file.Close())
		}
		if err := file.Close(); err != nil {
			return nil, err
		}
		found = append(found, subject{Name: entry.Name(), Digest: map[string]string{"sha256": hex.EncodeToString(hash.Sum(nil))}})
	}
	return found, nil
}

// provenance is the statement of how files were built, as SLSA describes it. It has no time, so that the same commit gives the
// same bytes.
func (c *proveCommand) provenance(of []subject) statement {
	builder := c.Builder
	if builder == "" {
		builder = unknownBuilder
	}
	commit, dirty := strings.CutSuffix(c.Revision, "-dirty")
	source := map[string]any{"uri": repository, "digest": map[string]string{"gitCommit": commit}}
	if dirty {
		source["annotations"] = map[string]string{"changed": "files of the checkout differ from the commit"}
	}
	return statement{Type: statementType, Subject: of, PredicateType: provenancePredicate, Predicate: map[string]any{
		"buildDefinition": map[string]any{
			"buildType":            buildType,
			"externalParameters":   map[string]any{"command": invocationReference, "version": c.Version, "platforms": c.Platforms},
			"internalParameters":   map[string]any{"go": runtime.Version()},
			"resolvedDependencies": []any{source},
		},
		"runDetails": map[string]any{"builder": map[string]any{"id": builder}},
	}}
}

// Run writes the files.
func (c *proveCommand) Run() error {
	var key *keypair
	if c.Key != "" {
		var err error
		if key, err = loadKey(c.Key); err != nil {
			return err
		}
		public, err := key.GetPublicKeyPem()
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(c.Folder, publicKeyFile), []byte(public), 0o644); err != nil {
			return err
		}
	}
	files, err := sums(c.Folder)
	if err != nil {
		return err
	}
	list, err := os.ReadFile(filepath.Join(c.Folder, listFile))
	if err != nil {
		return err
	}
	byName, registry, err := digests(string(list))
	if err != nil {
		return err
	}
	of := files
	for _, name := range images {
		of = append(of, subject{Name: registry + "/mediastack/" + name, Digest: map[string]string{"sha256": strings.TrimPrefix(byName[name], "sha256:")}})
	}
	said := c.provenance(of)
	text, err := json.MarshalIndent(said, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(c.Folder, provenanceFile), append(text, '\n'), 0o644); err != nil {
		return err
	}
	if key != nil {
		signed, err := key.attest(said)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(c.Folder, signedProvenance), signed, 0o644); err != nil {
			return err
		}
	}
	return c.writeSums(key)
}

func (c *proveCommand) writeSums(key *keypair) error {
	files, err := sums(c.Folder)
	if err != nil {
		return err
	}
	var text strings.Builder
	for _, file := range files {
		fmt.Fprintf(&text, "%s  %s\n", file.Digest["sha256"], file.Name)
	}
	if err := os.WriteFile(filepath.Join(c.Folder, sumsFile), []byte(text.String()), 0o644); err != nil || key == nil {
		return err
	}
	signed, err := key.bundle(&sign.PlainData{Data: []byte(text.String())})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(c.Folder, signedSums), signed, 0o644)
}
