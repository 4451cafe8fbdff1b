package auth

import (
	"net/http"

	"mediastack.dev/runtime/oauth"
)

// Challenge selects what the WWW-Authenticate header of a 401 answer offers.
type Challenge int

const (
	// ChallengeAll offers API keys and, if logins are configured, bearer tokens.
	ChallengeAll Challenge = iota
	// ChallengeLogin offers bearer tokens only, for a resource whose clients log in. Without
	// logins it offers API keys.
	ChallengeLogin
)

// allScopes is advertised in challenges. Advertising fewer would make clients ask the user
// again on their first write.
var allScopes = oauth.JoinScopes(oauth.Scopes())

// challenge returns the value of WWW-Authenticate for a request with these headers.
func (a *Authenticator) challenge(offer Challenge, received http.Header) string {
	apiKey := `ApiKey realm="media", header="` + a.KeyHeader + `"`
	switch {
	case a.cfg.MetadataURL == "":
		return apiKey
	case offer == ChallengeLogin:
		return a.bearerChallenge(received)
	}
	return apiKey + ", " + a.bearerChallenge(received)
}

// bearerChallenge names the metadata of the resource (RFC 9728) and the scopes.
func (a *Authenticator) bearerChallenge(received http.Header) string {
	challenge := `Bearer resource_metadata="` + a.cfg.MetadataURL + `", scope="` + allScopes + `"`
	if hasBearer(received) {
		challenge += `, error="invalid_token"`
	}
	return challenge
}

// scopeChallenge is the challenge for a token that lacks a scope (RFC 6750, section 3.1).
func (a *Authenticator) scopeChallenge() string {
	return `Bearer error="insufficient_scope", scope="` + allScopes + `", resource_metadata="` + a.cfg.MetadataURL + `"`
}
