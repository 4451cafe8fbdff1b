// Package keys derives what the runtime signs and encrypts with from the one server
// secret: a key for each purpose, so that a signature for one is worthless for another.
// Packages auth, delivery and login use it; it authenticates nobody.
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
	"strings"
)

// secretLength is the least length of the server secret, in bytes.
const secretLength = 32

// Purpose binds a signing key to one use: what is signed for one purpose is
// worthless for any other.
type Purpose string

// The purposes of signing keys.
const (
	ForUploads  Purpose = "signature"
	ForDelivery Purpose = "delivery"
	ForLogins   Purpose = "login"
	ForLetters  Purpose = "letter"
)

// Secret is the server secret that everything is signed with, and the previous one
// while it is being replaced. It prints and logs as nothing.
type Secret struct{ current, previous []byte }

// String hides the secret.
func (Secret) String() string { return "(hidden)" }

// GoString hides the secret from %#v.
func (Secret) GoString() string { return "(hidden)" }

// ParseSecret reads the server secret, and the previous one unless it is empty.
// Text of hexadecimal digits alone is hexadecimal, other text base64 (standard or
// URL-safe, padded or not).
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
	if len(decoded) < secretLength {
		return nil, fmt.Errorf("must hold at least %d bytes, not %d", secretLength, len(decoded))
	}
	return decoded, nil
}

// Signer signs and verifies for one purpose.
type Signer struct{ keys [][]byte }

// Signer derives the keys of a purpose.
func (s Secret) Signer(purpose Purpose) (*Signer, error) {
	keys, err := s.keys(purpose)
	return &Signer{keys: keys}, err
}

// keys derives the keys of a purpose, that of the current secret first.
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

// Sign returns the MAC of a message (HMAC-SHA-256) under the current secret.
func (s *Signer) Sign(message []byte) []byte { return mac(s.keys[0], message) }

// Verify reports in constant time whether the MAC is that of the message under the current
// or the previous secret.
func (s *Signer) Verify(message, sent []byte) bool {
	ok := false
	for _, key := range s.keys {
		ok = hmac.Equal(mac(key, message), sent) || ok
	}
	return ok
}

func mac(key, message []byte) []byte {
	hash := hmac.New(sha256.New, key)
	_, _ = hash.Write(message) // never fails, by its contract
	return hash.Sum(nil)
}

// Encrypter encrypts for one purpose what the service must read again itself (AES-256-GCM).
type Encrypter struct{ ciphers []cipher.AEAD }

// Encrypter derives the keys of a purpose.
func (s Secret) Encrypter(purpose Purpose) (*Encrypter, error) {
	keys, err := s.keys(purpose)
	if err != nil {
		return nil, err
	}
	encrypter := &Encrypter{}
	for _, key := range keys {
		block, err := aes.NewCipher(key)
		if err != nil {
			return nil, fmt.Errorf("make the cipher for %s: %w", purpose, err)
		}
		aead, err := cipher.NewGCMWithRandomNonce(block)
		if err != nil {
			return nil, fmt.Errorf("make the cipher for %s: %w", purpose, err)
		}
		encrypter.ciphers = append(encrypter.ciphers, aead)
	}
	return encrypter, nil
}

// Encrypt encrypts with the current secret.
func (e *Encrypter) Encrypt(plain []byte) []byte {
	return e.ciphers[0].Seal(nil, nil, plain, nil) //nolint:gosec // the cipher draws its nonces itself
}

// Decrypt returns what was encrypted with the current or the previous secret.
func (e *Encrypter) Decrypt(encrypted []byte) ([]byte, error) {
	for _, c := range e.ciphers {
		if plain, err := c.Open(nil, nil, encrypted, nil); err == nil {
			return plain, nil
		}
	}
	return nil, errors.New("neither secret decrypts this")
}

// Encode returns the URL-safe base64 of b, without padding.
func Encode(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// Decode reads what Encode writes, in that one form. The decoder alone would pass over
// line breaks, so that a signature could be written in many ways.
func Decode(text string) ([]byte, bool) {
	if strings.ContainsAny(text, "\r\n") {
		return nil, false
	}
	decoded, err := base64.RawURLEncoding.Strict().DecodeString(text)
	return decoded, err == nil
}
