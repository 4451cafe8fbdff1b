package oauth

import (
	"crypto/sha256"
	"regexp"
	"strings"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/cell"
	"mediastack.dev/runtime/keys"
)

// Prefixes of secrets, which secret scanners can recognize.
const (
	codePrefix    = "mac_"
	accessPrefix  = "mat_"
	refreshPrefix = "mrt_"
)

// newSecret returns a random secret of 256 bits, with its prefix and the number of the installation.
func newSecret(installation cell.Number, prefix string) (string, error) {
	digits, err := account.RandomBase62()
	return installation.Credential(prefix, digits), err
}

// hashSecret returns the hash under which a secret is stored.
func hashSecret(secret string) account.Hash { return sha256.Sum256([]byte(secret)) }

var secretPattern = regexp.MustCompile(`^[a-z]{3}_[0-9a-f]{3}[0-9A-Za-z]{43}$`)

// parseSecret returns the hash of a secret with this prefix. It returns false for malformed
// text, which needs no database lookup.
func parseSecret(prefix, secret string) (account.Hash, bool) {
	if !strings.HasPrefix(secret, prefix) || !secretPattern.MatchString(secret) {
		return account.Hash{}, false
	}
	return hashSecret(secret), true
}

// NewAccessToken returns a random access token and the hash under which it is stored. The
// token ends with a MAC, so that invented tokens are rejected without a database lookup and
// do not count as failed attempts of the clients behind the same IP address. Other secrets
// have no MAC, because they outlive the server secret that it is made with.
func NewAccessToken(installation cell.Number, signer Signer) (string, account.Hash, error) {
	secret, err := newSecret(installation, accessPrefix)
	token := secret + "." + keys.Encode(signer.Sign([]byte(secret)))
	return token, hashSecret(token), err
}

// AccessTokenHash returns the hash of an access token. It returns false for any other text,
// such as a refresh token.
func AccessTokenHash(signer Signer, token string) (account.Hash, bool) {
	secret, encodedMAC, _ := strings.Cut(token, ".")
	mac, ok := keys.Decode(encodedMAC)
	if _, wellFormed := parseSecret(accessPrefix, secret); !wellFormed || !ok || !signer.Verify([]byte(secret), mac) {
		return account.Hash{}, false
	}
	return hashSecret(token), true
}
