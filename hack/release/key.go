package main

import (
	"cmp"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"

	protocommon "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	"github.com/sigstore/sigstore/pkg/cryptoutils"
)

// passwordVariable is the variable that cosign reads, too.
const passwordVariable = "COSIGN_PASSWORD"

func password(bool) ([]byte, error) { return []byte(os.Getenv(passwordVariable)), nil }

// keypair is a private key, as the library signs with it.
type keypair struct {
	private *ecdsa.PrivateKey
	hint    []byte
}

// loadKey reads a private key: one of cosign, or one in PEM of openssl. It must be ECDSA with P-256, as those of cosign are.
func loadKey(file string) (*keypair, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	parsed, err := cryptoutils.UnmarshalPEMToPrivateKey(text, password)
	if err != nil {
		return nil, fmt.Errorf("the key %s cannot be read; is %s its password? %w", file, passwordVariable, err)
	}
	private, ok := parsed.(*ecdsa.PrivateKey)
	if !ok || private.Curve != elliptic.P256() {
		return nil, fmt.Errorf("the key %s is not ECDSA with the curve P-256, as those of cosign are", file)
	}
	hint, err := fingerprint(private.Public())
	if err != nil {
		return nil, err
	}
	return &keypair{private: private, hint: []byte(hint)}, nil
}

// fingerprint is the SHA-256 of a public key.
func fingerprint(public crypto.PublicKey) (string, error) {
	der, err := cryptoutils.MarshalPublicKeyToDER(public)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(der)
	return hex.EncodeToString(sum[:]), nil
}

// GetHashAlgorithm implements sign.Keypair.
func (k *keypair) GetHashAlgorithm() protocommon.HashAlgorithm {
	return protocommon.HashAlgorithm_SHA2_256
}

// GetSigningAlgorithm implements sign.Keypair.
func (k *keypair) GetSigningAlgorithm() protocommon.PublicKeyDetails {
	return protocommon.PublicKeyDetails_PKIX_ECDSA_P256_SHA_256
}

// GetHint implements sign.Keypair.
func (k *keypair) GetHint() []byte { return k.hint }

// GetKeyAlgorithm implements sign.Keypair.
func (k *keypair) GetKeyAlgorithm() string { return "ECDSA" }

// GetPublicKey implements sign.Keypair.
func (k *keypair) GetPublicKey() crypto.PublicKey { return k.private.Public() }

// GetPublicKeyPem implements sign.Keypair.
func (k *keypair) GetPublicKeyPem() (string, error) {
	text, err := cryptoutils.MarshalPublicKeyToPEM(k.private.Public())
	return string(text), err
}

// SignData implements sign.Keypair. It returns the signature and the digest of the data.
func (k *keypair) SignData(_ context.Context, data []byte) ([]byte, []byte, error) {
	sum := sha256.Sum256(data)
	signed, err := k.private.Sign(rand.Reader, sum[:], crypto.SHA256)
	return signed, sum[:], err
}

// keyCommand writes a pair of keys.
type keyCommand struct {
	Prefix string `arg:"" default:"cosign" help:"The files are PREFIX.key and PREFIX.pub."`
}

// Run writes the files, unless one of them exists.
func (c *keyCommand) Run() error {
	private, public, err := cryptoutils.GeneratePEMEncodedECDSAKeyPair(elliptic.P256(), password)
	if err != nil {
		return err
	}
	for _, name := range []string{c.Prefix + ".key", c.Prefix + ".pub"} {
		if _, err := os.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s exists already, and stays as it is (%w)", name, cmp.Or(err, fs.ErrExist))
		}
	}
	return errors.Join(os.WriteFile(c.Prefix+".key", private, 0o600), os.WriteFile(c.Prefix+".pub", public, 0o644))
}
