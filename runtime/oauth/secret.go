package oauth

import (
	"regexp"
	"strings"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/keys"
)

// Prefixes of secrets, so that secret scanners can know them.
const (
	codePrefix    = "mac_"
	accessPrefix  = "mat_"
	refreshPrefix = "mrt_"
)

// newSecret draws a secret of 256 bits.
func newSecret(prefix string) (string, error) {
	digits, err := account.Draw()
	return prefix + digits, err
}

var secretForm = regexp.MustCompile(`^[a-z]{3}_[0-9A-Za-z]{43}$`)

// hashOfSecret returns the hash under which a secret of this prefix is kept; a text of
// another form is refused before any look-up.
func hashOfSecret(prefix, secret string) (account.Hash, bool) {
	if len(secret) < len(prefix) || secret[:len(prefix)] != prefix || !secretForm.MatchString(secret) {
		return account.Hash{}, false
	}
	return hashOf(secret), true
}

// AccessTokenHash returns the hash of an access token; false for a text that is none of
// ours, such as a refresh token.
func AccessTokenHash(signer Signer, token string) (account.Hash, bool) {
	secret, code, _ := strings.Cut(token, ".")
	mac, ok := keys.Decode(code)
	if _, formed := hashOfSecret(accessPrefix, secret); !formed || !ok || !signer.Verify([]byte(secret), mac) {
		return account.Hash{}, false
	}
	return hashOf(token), true
}

// NewAccessToken draws an access token and gives the hash that it is kept under. It
// carries a code of ours, so that a made-up one is refused without a look-up, and counts
// against nobody who sends good ones from the same address. Other secrets have none: they
// outlive the server secret that it is made with.
func NewAccessToken(signer Signer) (string, account.Hash, error) {
	secret, err := newSecret(accessPrefix)
	token := secret + "." + keys.Encode(signer.Sign([]byte(secret)))
	return token, hashOf(token), err
}
