// Package keys derives signing and encryption keys from the server secret (HKDF), one for
// each purpose, so that a signature for one purpose is invalid for every other. Packages
// auth, delivery, oauth and mail use it; it does not authenticate requests.
package keys

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"strings"
	"sync"
)

// minSecretLength is the minimum length of the server secret, in bytes.
const minSecretLength = 32

// Purpose is what a derived key is for.
type Purpose string

// The purposes of keys.
const (
	PurposeUploadSignature Purpose = "upload-signature"
	PurposeDeliveryURL     Purpose = "delivery-url"
	PurposeOAuth           Purpose = "oauth" // access tokens, login codes and login forms
	PurposeEmailOutbox     Purpose = "email-outbox"
)

// Secret is the server secret, and the previous one during a rotation. Printing and
// logging hide its value.
type Secret struct{ current, previous []byte }

// String hides the secret.
func (Secret) String() string { return "(hidden)" }

// GoString hides the secret from %#v.
func (Secret) GoString() string { return "(hidden)" }

// ParseSecret reads the server secret, and the previous one unless it is empty.
// Text of hexadecimal digits only is decoded as hexadecimal, other text as base64
// (standard or URL-safe, padded or not).
func ParseSecret(current, previous string) (Secret, error) {
	var secret Secret
	var err error
	if secret.current, err = decodeSecret(current); err != nil {
		return Secret{}, fmt.Errorf("SERVICE_SECRET %w", err)
	}
	if previous != "" {
		if secret.previous, err = decodeSecret(previous); err != nil {
			return Secret{}, fmt.Errorf("SERVICE_SECRET_PREVIOUS %w", err)
		}
	}
	return secret, nil
}

func decodeSecret(text string) ([]byte, error) {
	text = strings.TrimSpace(text)
	decoded, err := hex.DecodeString(text)
	if err != nil {
		text = strings.NewReplacer("+", "-", "/", "_").Replace(strings.TrimRight(text, "="))
		if decoded, err = base64.RawURLEncoding.DecodeString(text); err != nil {
			return nil, errors.New("must be hexadecimal or base64")
		}
	}
	if len(decoded) < minSecretLength {
		return nil, fmt.Errorf("must hold at least %d bytes, not %d", minSecretLength, len(decoded))
	}
	return decoded, nil
}

// Signer signs and verifies messages for one purpose (HMAC-SHA-256). It is safe for concurrent use.
type Signer struct{ keys []*macKey }

// Signer returns the Signer of a purpose.
func (s Secret) Signer(purpose Purpose) (*Signer, error) {
	keys, err := s.keys(purpose)
	signer := &Signer{}
	for _, key := range keys {
		signer.keys = append(signer.keys, newMACKey(key))
	}
	return signer, err
}

// keys derives the keys of a purpose, the key of the current secret first.
func (s Secret) keys(purpose Purpose) ([][]byte, error) {
	var keys [][]byte
	for _, secret := range [][]byte{s.current, s.previous} {
		if secret == nil {
			continue
		}
		key, err := hkdf.Key(sha256.New, secret, nil, "mediastack "+string(purpose), sha256.Size)
		if err != nil {
			return nil, fmt.Errorf("derive the key for %s: %w", purpose, err)
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// Sign returns the MAC of a message, by the key of the current secret.
func (s *Signer) Sign(message []byte) []byte { return s.AppendSign(nil, message) }

// AppendSign appends the MAC of a message to a slice.
func (s *Signer) AppendSign(dst, message []byte) []byte { return s.keys[0].appendMAC(dst, message) }

// Verify reports whether mac is the MAC of the message, by the key of the current or the
// previous secret. It takes constant time.
func (s *Signer) Verify(message, mac []byte) bool {
	ok := false
	var computed [sha256.Size]byte
	for _, key := range s.keys {
		ok = hmac.Equal(key.appendMAC(computed[:0], message), mac) || ok
	}
	return ok
}

// macKey computes MACs with one key. Its states are used again: a new one hashes the key twice, which
// takes as long as the MAC of a short message.
type macKey struct{ states sync.Pool }

// macState is a state and the memory of its input and output: what a hash.Hash is given would have to
// be allocated by the caller.
type macState struct {
	hash    hash.Hash
	message []byte
	sum     [sha256.Size]byte
}

func newMACKey(key []byte) *macKey {
	return &macKey{sync.Pool{New: func() any { return &macState{hash: hmac.New(sha256.New, key)} }}}
}

func (k *macKey) appendMAC(dst, message []byte) []byte {
	state := k.states.Get().(*macState) //nolint:errcheck // the pool has nothing else
	state.message = append(state.message[:0], message...)
	state.hash.Reset()
	_, _ = state.hash.Write(state.message) // hash.Hash: it never returns an error
	dst = append(dst, state.hash.Sum(state.sum[:0])...)
	k.states.Put(state)
	return dst
}

// Encrypter encrypts and decrypts data for one purpose (AES-256-GCM).
type Encrypter struct{ ciphers []cipher.AEAD }

// Encrypter returns the Encrypter of a purpose.
func (s Secret) Encrypter(purpose Purpose) (*Encrypter, error) {
	keys, err := s.keys(purpose)
	if err != nil {
		return nil, err
	}
	encrypter := &Encrypter{}
	for _, key := range keys {
		block, err := aes.NewCipher(key)
		if err != nil {
			return nil, fmt.Errorf("create the cipher for %s: %w", purpose, err)
		}
		aead, err := cipher.NewGCMWithRandomNonce(block)
		if err != nil {
			return nil, fmt.Errorf("create the cipher for %s: %w", purpose, err)
		}
		encrypter.ciphers = append(encrypter.ciphers, aead)
	}
	return encrypter, nil
}

// Encrypt returns plain encrypted with the key of the current secret.
func (e *Encrypter) Encrypt(plain []byte) []byte {
	return e.ciphers[0].Seal(nil, nil, plain, nil) //nolint:gosec // NewGCMWithRandomNonce generates the nonce
}

// Decrypt returns the plaintext of data that was encrypted with the key of the current or
// the previous secret.
func (e *Encrypter) Decrypt(encrypted []byte) ([]byte, error) {
	for _, c := range e.ciphers {
		if plain, err := c.Open(nil, nil, encrypted, nil); err == nil {
			return plain, nil
		}
	}
	return nil, errors.New("the data was not encrypted with the current or the previous server secret")
}

// Encode returns the URL-safe base64 of b, without padding.
func Encode(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// Decode decodes the output of Encode, and rejects every other encoding of the same bytes.
// The decoder of encoding/base64 ignores line breaks, so that a signature would have many
// valid forms.
func Decode(text string) ([]byte, bool) {
	if strings.ContainsAny(text, "\r\n") {
		return nil, false
	}
	decoded, err := base64.RawURLEncoding.Strict().DecodeString(text)
	return decoded, err == nil
}
