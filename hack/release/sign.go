package main

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/sigstore/sigstore-go/pkg/sign"
	"google.golang.org/protobuf/encoding/protojson"
)

const (
	statementType = "https://in-toto.io/Statement/v1"
	payloadType   = "application/vnd.in-toto+json"
	// signPredicate is what cosign says with the signature of an image: that it was signed, and nothing else.
	signPredicate       = "https://sigstore.dev/cosign/sign/v1"
	provenancePredicate = "https://slsa.dev/provenance/v1"
)

// statement is an in-toto statement: what is said of files or images.
type statement struct {
	Type          string    `json:"_type"`
	Subject       []subject `json:"subject"`
	PredicateType string    `json:"predicateType"`
	Predicate     any       `json:"predicate"`
}

// subject is a file or an image.
type subject struct {
	Name   string            `json:"name,omitempty"`
	Digest map[string]string `json:"digest"`
}

// bundle signs content, and returns the bundle that cosign and other tools of Sigstore verify.
func (k *keypair) bundle(content sign.Content) ([]byte, error) {
	signed, err := sign.Bundle(content, k, sign.BundleOptions{})
	if err != nil {
		return nil, err
	}
	return protojson.Marshal(signed)
}

func (k *keypair) attest(s statement) ([]byte, error) {
	text, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	return k.bundle(&sign.DSSEData{Data: text, PayloadType: payloadType})
}

// signCommand signs the images.
type signCommand struct {
	Key    string `required:"" type:"existingfile" help:"Private key."`
	Images string `required:"" type:"existingfile" help:"The list of the images, with their digests."`
	Out    string `arg:"" type:"existingdir" help:"Folder of the signatures, NAME.sigstore.json."`
}

// Run writes the signatures.
func (c *signCommand) Run() error {
	key, err := loadKey(c.Key)
	if err != nil {
		return err
	}
	list, err := os.ReadFile(c.Images)
	if err != nil {
		return err
	}
	byName, _, err := digests(string(list))
	if err != nil {
		return err
	}
	for name, digest := range byName {
		signed, err := key.attest(statement{Type: statementType, PredicateType: signPredicate, Predicate: struct{}{},
			Subject: []subject{{Digest: map[string]string{"sha256": strings.TrimPrefix(digest, "sha256:")}}}})
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(c.Out, name+".sigstore.json"), signed, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// hash returns the bytes of a hexadecimal SHA-256.
func hash(text string) ([]byte, error) {
	sum, err := hex.DecodeString(text)
	if err != nil || len(sum) != 32 {
		return nil, fmt.Errorf("%q is no SHA-256", text)
	}
	return sum, nil
}
