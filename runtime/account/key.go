package account

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"log/slog"
	"math/big"
	"regexp"
)

// KeyPrefix begins every API key, so that secret scanners can know one.
const KeyPrefix = "msk_"

const (
	base62    = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	keyDigits = 43 // 62^43 > 2^256
)

var keyForm = regexp.MustCompile(`^msk_[0-9A-Za-z]{43}$`)

// Hash is the SHA-256 of an API key: all that is stored of it. A key has 256 bits
// of entropy, so a fast hash is enough.
type Hash [sha256.Size]byte

// Equal compares in constant time.
func (h Hash) Equal(other Hash) bool { return subtle.ConstantTimeCompare(h[:], other[:]) == 1 }

// Token is an API key in clear. It prints and logs as a fixed word; Reveal gives the key.
type Token struct{ clear string }

// NewToken draws a key from crypto/rand.
func NewToken() (Token, error) {
	digits, err := Draw()
	return Token{clear: KeyPrefix + digits}, err
}

// Draw returns 43 base62 characters from crypto/rand: 256 bits of what nobody can guess.
func Draw() (string, error) {
	limit := new(big.Int).Lsh(big.NewInt(1), 256)
	n, err := rand.Int(rand.Reader, limit)
	if err != nil {
		return "", fmt.Errorf("draw a secret: %w", err)
	}
	digits := make([]byte, keyDigits)
	base, digit := big.NewInt(62), new(big.Int)
	for i := keyDigits - 1; i >= 0; i-- {
		n.DivMod(n, base, digit)
		digits[i] = base62[digit.Int64()]
	}
	return string(digits), nil
}

// ParseToken accepts text only in the form of an API key: cheap to refuse before any look-up.
func ParseToken(text string) (Token, bool) {
	if !keyForm.MatchString(text) {
		return Token{}, false
	}
	return Token{clear: text}, true
}

// Hash is what the store keeps.
func (t Token) Hash() Hash { return sha256.Sum256([]byte(t.clear)) }

// Reveal returns the key in clear, for the Secret that carries it to its owner.
func (t Token) Reveal() string { return t.clear }

// String hides the key from %v and %s.
func (t Token) String() string { return "msk_(hidden)" }

// GoString hides the key from %#v.
func (t Token) GoString() string { return t.String() }

// LogValue hides the key from slog.
func (t Token) LogValue() slog.Value { return slog.StringValue(t.String()) }

// MarshalText hides the key from encoders.
func (t Token) MarshalText() ([]byte, error) { return []byte(t.String()), nil }
