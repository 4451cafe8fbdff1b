package account

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"log/slog"
	"math/big"
	"regexp"

	"mediastack.dev/runtime/cell"
)

// KeyPrefix begins every API key, so that secret scanners recognize it.
const KeyPrefix = "msk_"

const (
	base62    = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	keyDigits = 43 // 62^43 > 2^256
)

var keyPattern = regexp.MustCompile(`^msk_[0-9a-f]{3}[0-9A-Za-z]{43}$`)

// Hash is the SHA-256 of an API key, which is stored instead of the key. A key has 256 bits of
// entropy, so a fast hash is sufficient.
type Hash [sha256.Size]byte

// Equal reports whether two hashes are the same, in constant time.
func (h Hash) Equal(other Hash) bool { return subtle.ConstantTimeCompare(h[:], other[:]) == 1 }

// KeySecret is an API key in plain text. It is printed and logged as a fixed word; Reveal returns
// the key.
type KeySecret struct{ clear string }

// NewKeySecret returns a random key of an installation.
func NewKeySecret(installation cell.Number) (KeySecret, error) {
	digits, err := RandomBase62()
	return KeySecret{clear: installation.Credential(KeyPrefix, digits)}, err
}

// RandomBase62 returns 256 random bits as 43 base62 characters.
func RandomBase62() (string, error) {
	limit := new(big.Int).Lsh(big.NewInt(1), 256)
	n, err := rand.Int(rand.Reader, limit)
	if err != nil {
		return "", fmt.Errorf("generate a secret: %w", err)
	}
	digits := make([]byte, keyDigits)
	base, digit := big.NewInt(62), new(big.Int)
	for i := keyDigits - 1; i >= 0; i-- {
		n.DivMod(n, base, digit)
		digits[i] = base62[digit.Int64()]
	}
	return string(digits), nil
}

// ParseKeySecret returns text as an API key, and reports whether it has the form of one. Text in
// any other form is rejected without a look-up.
func ParseKeySecret(text string) (KeySecret, bool) {
	if !keyPattern.MatchString(text) {
		return KeySecret{}, false
	}
	return KeySecret{clear: text}, true
}

// Hash returns the hash that the store has for the key.
func (t KeySecret) Hash() Hash { return sha256.Sum256([]byte(t.clear)) }

// Reveal returns the key in plain text, for the Kubernetes Secret that is delivered to its owner.
func (t KeySecret) Reveal() string { return t.clear }

// String hides the key from %v and %s.
func (t KeySecret) String() string { return "msk_(hidden)" }

// GoString hides the key from %#v.
func (t KeySecret) GoString() string { return t.String() }

// LogValue hides the key from slog.
func (t KeySecret) LogValue() slog.Value { return slog.StringValue(t.String()) }

// MarshalText hides the key from encoders.
func (t KeySecret) MarshalText() ([]byte, error) { return []byte(t.String()), nil }
