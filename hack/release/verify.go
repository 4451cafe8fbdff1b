package main

import (
	"bytes"
	"crypto"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sigstore/sigstore-go/pkg/bundle"
	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/verify"
	"github.com/sigstore/sigstore/pkg/cryptoutils"
	"github.com/sigstore/sigstore/pkg/signature"
)

// verifyCommand verifies a release.
type verifyCommand struct {
	Key     string `required:"" type:"existingfile" help:"Public key, from a source that you trust: not from the same folder."`
	Version string `help:"Version that it must be; any if empty."`
	Folder  string `arg:"" type:"existingdir" help:"Folder of the release."`
}

// Run prints what was verified, or fails.
func (c *verifyCommand) Run() error {
	trusted, err := trust(c.Key)
	if err != nil {
		return err
	}
	count, err := trusted.files(c.Folder)
	if err != nil {
		return err
	}
	said, err := trusted.provenance(c.Folder)
	if err != nil {
		return err
	}
	if c.Version != "" && said.version != c.Version {
		return fmt.Errorf("this is version %s, not %s", said.version, c.Version)
	}
	list, err := os.ReadFile(filepath.Join(c.Folder, listFile))
	if err != nil {
		return err
	}
	byName, _, err := digests(string(list))
	if err != nil {
		return err
	}
	for _, name := range images {
		if err := trusted.image(filepath.Join(c.Folder, imageArchive(name, said.version)), byName[name]); err != nil {
			return fmt.Errorf("image %s: %w", name, err)
		}
	}
	fmt.Printf("verified: %d files and %d images of %s, built from commit %s\n", count, len(images), said.version, said.commit)
	return nil
}

// truster verifies what a key has signed.
type truster struct{ verifier *verify.Verifier }

func trust(file string) (*truster, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	public, err := cryptoutils.UnmarshalPEMToPublicKey(text)
	if err != nil {
		return nil, fmt.Errorf("the public key %s cannot be read: %w", file, err)
	}
	loaded, err := signature.LoadVerifier(public, crypto.SHA256)
	if err != nil {
		return nil, err
	}
	// A key has no time of validity, and there is one alone, whatever name the bundle has for it.
	material := root.NewTrustedPublicKeyMaterial(func(string) (root.TimeConstrainedVerifier, error) {
		return root.NewExpiringKey(loaded, time.Time{}, time.Time{}), nil
	})
	verifier, err := verify.NewVerifier(material, verify.WithNoObserverTimestamps())
	return &truster{verifier}, err
}

// verify verifies a bundle of something.
func (t *truster) verify(text []byte, of verify.ArtifactPolicyOption) (*verify.VerificationResult, error) {
	var signed bundle.Bundle
	if err := signed.UnmarshalJSON(text); err != nil {
		return nil, err
	}
	return t.verifier.Verify(&signed, verify.NewPolicy(of, verify.WithKey()))
}

// files verifies the checksums, and that the folder has these files and no others.
func (t *truster) files(folder string) (int, error) {
	text, err := os.ReadFile(filepath.Join(folder, sumsFile))
	if err != nil {
		return 0, err
	}
	signed, err := os.ReadFile(filepath.Join(folder, signedSums))
	if err != nil {
		return 0, fmt.Errorf("the release is not signed: %w", err)
	}
	if _, err := t.verify(signed, verify.WithArtifact(bytes.NewReader(text))); err != nil {
		return 0, fmt.Errorf("%s was not signed with this key: %w", sumsFile, err)
	}
	found, err := sums(folder, sumsFile, signedSums)
	if err != nil {
		return 0, err
	}
	listed := map[string]string{}
	for line := range strings.Lines(string(text)) {
		sum, name, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "  ")
		listed[name] = sum
	}
	var wrong []string
	for _, file := range found {
		switch listed[file.Name] {
		case file.Digest["sha256"]:
		case "":
			wrong = append(wrong, file.Name+" is no file of the release")
		default:
			wrong = append(wrong, file.Name+" was changed")
		}
		delete(listed, file.Name)
	}
	for name := range listed {
		wrong = append(wrong, name+" is missing")
	}
	slices.Sort(wrong)
	if len(wrong) > 0 {
		return 0, errors.New(strings.Join(wrong, "; "))
	}
	return len(found), nil
}

// origin is what the provenance says.
type origin struct{ version, commit string }

// provenance verifies who says how the list of images was built, and returns what is said.
func (t *truster) provenance(folder string) (origin, error) {
	signed, err := os.ReadFile(filepath.Join(folder, signedProvenance))
	if err != nil {
		return origin{}, err
	}
	list, err := os.ReadFile(filepath.Join(folder, listFile))
	if err != nil {
		return origin{}, err
	}
	result, err := t.verify(signed, verify.WithArtifact(bytes.NewReader(list)))
	if err != nil {
		return origin{}, fmt.Errorf("%s: %w", signedProvenance, err)
	}
	if result.Statement.GetPredicateType() != provenancePredicate {
		return origin{}, fmt.Errorf("%s has a statement of another type, %s", signedProvenance, result.Statement.GetPredicateType())
	}
	text, err := json.Marshal(result.Statement.GetPredicate().AsMap())
	if err != nil {
		return origin{}, err
	}
	var said struct {
		BuildDefinition struct {
			ExternalParameters   struct{ Version string }
			ResolvedDependencies []struct{ Digest struct{ GitCommit string } }
		}
	}
	if err := json.Unmarshal(text, &said); err != nil {
		return origin{}, err
	}
	if len(said.BuildDefinition.ResolvedDependencies) != 1 {
		return origin{}, fmt.Errorf("%s names %d sources", signedProvenance, len(said.BuildDefinition.ResolvedDependencies))
	}
	return origin{version: said.BuildDefinition.ExternalParameters.Version, commit: said.BuildDefinition.ResolvedDependencies[0].Digest.GitCommit}, nil
}
