package handover

import (
	"crypto/sha256"
	"log/slog"
	"regexp"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/cell"
	"mediastack.dev/runtime/media"
)

// tokenPrefix begins every token, so that logs mask it.
const tokenPrefix = "mup_"

// NonceLength is the length of what makes a capability unique, in bytes.
const NonceLength = 16

var tokenPattern = regexp.MustCompile(`^mup_[0-9a-f]{3}[0-9A-Za-z]{43}$`)

// Token is what the address of a page ends with. It has 256 random bits. It is printed and logged as a fixed word; Reveal returns it.
type Token struct{ clear string }

// NewToken returns a random token of an installation.
func NewToken(installation cell.Number) (Token, error) {
	digits, err := account.RandomBase62()
	return Token{clear: installation.Credential(tokenPrefix, digits)}, err
}

// ParseToken returns a text as a token, and reports whether it has the form of one.
func ParseToken(text string) (Token, bool) {
	if !tokenPattern.MatchString(text) {
		return Token{}, false
	}
	return Token{clear: text}, true
}

// Nonce returns the nonce of the capability. The token cannot be found from it.
func (t Token) Nonce() []byte {
	sum := sha256.Sum256([]byte("nonce of " + t.clear))
	return sum[:NonceLength]
}

// Capability returns the id of the capability, which the row of the request has. Neither the token nor the nonce can be found from it.
func (t Token) Capability() media.SHA256 {
	sum := sha256.Sum256(t.Nonce())
	return sum[:]
}

// Reveal returns the token in plain text.
func (t Token) Reveal() string { return t.clear }

// String hides the token from %v and %s.
func (t Token) String() string { return tokenPrefix + "(hidden)" }

// GoString hides the token from %#v.
func (t Token) GoString() string { return t.String() }

// LogValue hides the token from slog.
func (t Token) LogValue() slog.Value { return slog.StringValue(t.String()) }

// MarshalText hides the token from encoders.
func (t Token) MarshalText() ([]byte, error) { return []byte(t.String()), nil }
