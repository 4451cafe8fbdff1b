package keys

import (
	"crypto/ecdh"
	"crypto/hpke"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
)

// Purposes of sealed data: who seals it has the public key only.
const (
	PurposeWebhooks Purpose = "webhooks" // the URLs and signing secrets that the operator stores, and the runtimes use
)

// PublicKey is a key with which data can be sealed, and not opened. It is no secret.
type PublicKey struct {
	// ID identifies the key.
	ID string
	// Bytes is the key in the form of RFC 9180.
	Bytes []byte
}

// sealKEM is the key exchange: X25519 (RFC 9180, section 7.1).
func sealKEM() hpke.KEM { return hpke.DHKEM(ecdh.X25519()) }

// Seal encrypts plain for those who have the private key: HPKE (RFC 9180) with X25519, HKDF-SHA-256 and AES-256-GCM.
func (k PublicKey) Seal(purpose Purpose, plain []byte) ([]byte, error) {
	public, err := sealKEM().NewPublicKey(k.Bytes)
	if err != nil {
		return nil, fmt.Errorf("read the public key for %s: %w", purpose, err)
	}
	return hpke.Seal(public, hpke.HKDFSHA256(), hpke.AES256GCM(), []byte("mediastack "+purpose), plain)
}

// Opener opens data that was sealed for one purpose. It is safe for concurrent use.
type Opener struct {
	purpose Purpose
	keys    []hpke.PrivateKey
}

// Opener returns the Opener of a purpose, whose keys are derived from the server secret.
func (s Secret) Opener(purpose Purpose) (*Opener, error) {
	derived, err := s.keys(purpose)
	if err != nil {
		return nil, err
	}
	opener := &Opener{purpose: purpose}
	for _, material := range derived {
		key, err := sealKEM().DeriveKeyPair(material)
		if err != nil {
			return nil, fmt.Errorf("derive the key pair for %s: %w", purpose, err)
		}
		opener.keys = append(opener.keys, key)
	}
	return opener, nil
}

// PublicKey returns the key of the current secret.
func (o *Opener) PublicKey() PublicKey { return publicKeyOf(o.keys[0]) }

// IDs returns those of all keys that it has, the current one first.
func (o *Opener) IDs() (ids []string) {
	for _, key := range o.keys {
		ids = append(ids, publicKeyOf(key).ID)
	}
	return ids
}

func publicKeyOf(key hpke.PrivateKey) PublicKey {
	bytes := key.PublicKey().Bytes()
	sum := sha256.Sum256(bytes)
	return PublicKey{ID: hex.EncodeToString(sum[:8]), Bytes: bytes}
}

// Open returns the plaintext of data that was sealed with the public key of the current or the previous secret.
func (o *Opener) Open(sealed []byte) ([]byte, error) {
	for _, key := range o.keys {
		if plain, err := hpke.Open(key, hpke.HKDFSHA256(), hpke.AES256GCM(), []byte("mediastack "+o.purpose), sealed); err == nil {
			return plain, nil
		}
	}
	return nil, errors.New("the data was not sealed for the current or the previous server secret")
}
