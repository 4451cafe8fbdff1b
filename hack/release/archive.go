package main

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/sigstore/sigstore-go/pkg/verify"
)

// maxDocument are the bytes of a manifest or a signature, at most.
const maxDocument = 4 << 20

// descriptor is what an OCI manifest says of another document.
type descriptor struct {
	MediaType    string
	Digest       string
	ArtifactType string
	Annotations  map[string]string
}

// document is an OCI index or manifest.
type document struct {
	Manifests []descriptor
	Layers    []descriptor
	Subject   *descriptor
}

const bundleType = "application/vnd.dev.sigstore.bundle.v0.3+json"

// image verifies that an archive has an image with a digest, and its signature.
func (t *truster) image(archive, digest string) error {
	files, err := documents(archive)
	if err != nil {
		return fmt.Errorf("%s: %w", archive, err)
	}
	var all document
	if err := json.Unmarshal(files["index.json"], &all); err != nil {
		return fmt.Errorf("index.json of %s: %w", archive, err)
	}
	named, signed := false, false
	for _, d := range all.Manifests {
		switch d.ArtifactType {
		case "":
			if d.Digest != digest {
				return fmt.Errorf("%s has the image %s, and %s names %s", archive, d.Digest, listFile, digest)
			}
			named = true
		case bundleType:
			if err := t.referrer(files, d, digest); err != nil {
				return err
			}
			signed = true
		}
	}
	if !named || !signed {
		return fmt.Errorf("%s has no image (%t) or no signature (%t)", archive, named, signed)
	}
	return nil
}

// referrer verifies a signature that names an image.
func (t *truster) referrer(files map[string][]byte, d descriptor, digest string) error {
	var manifest document
	if err := json.Unmarshal(files[blob(d.Digest)], &manifest); err != nil {
		return fmt.Errorf("the manifest of the signature: %w", err)
	}
	if manifest.Subject == nil || manifest.Subject.Digest != digest || len(manifest.Layers) != 1 {
		return errors.New("the signature is of another image")
	}
	sum, err := hash(strings.TrimPrefix(digest, "sha256:"))
	if err != nil {
		return err
	}
	result, err := t.verify(files[blob(manifest.Layers[0].Digest)], verify.WithArtifactDigest("sha256", sum))
	if err != nil {
		return fmt.Errorf("it was not signed with this key: %w", err)
	}
	if result.Statement.GetPredicateType() != signPredicate {
		return fmt.Errorf("the signature has a statement of another type, %s", result.Statement.GetPredicateType())
	}
	return nil
}

func blob(digest string) string { return "blobs/" + strings.Replace(digest, ":", "/", 1) }

// documents returns the small files of an archive, whose blobs have the digest of their name.
func documents(archive string) (map[string][]byte, error) {
	file, err := os.Open(archive)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	found := map[string][]byte{}
	for reader := tar.NewReader(file); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return found, nil
		}
		if err != nil {
			return nil, err
		}
		if header.Typeflag != tar.TypeReg {
			continue
		}
		sum := sha256.New()
		if header.Size <= maxDocument {
			text, err := io.ReadAll(io.TeeReader(reader, sum))
			if err != nil {
				return nil, err
			}
			found[header.Name] = text
		} else if _, err := io.Copy(sum, reader); err != nil {
			return nil, err
		}
		if name, isBlob := strings.CutPrefix(header.Name, "blobs/sha256/"); isBlob && name != hex.EncodeToString(sum.Sum(nil)) {
			return nil, fmt.Errorf("%s has another content than its name says", header.Name)
		}
	}
}
