package auth

import (
	"encoding/binary"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"mediastack.dev/runtime/cell"
	"mediastack.dev/runtime/keys"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/oauth"
)

// claims is the content of an upload signature: the credential that created it, its expiry
// and the group that it is bound to.
type claims struct {
	accountID, appID, keyID uuid.UUID
	grantID                 uuid.UUID // of the login that created it; zero for a key
	expires                 time.Time // whole seconds
	group                   string    // empty = not bound
}

// signaturePrefix begins every upload signature.
const signaturePrefix = "mus_"

const (
	// A signature that was created by a login contains the id of the grant as well.
	signatureByKey   = 1
	signatureByLogin = 2
	// claimsLength is the length of claims without a group: version, expiry, three ids.
	claimsLength = 1 + 8 + 3*16
	// maxSignatureLen bounds a signature, in characters.
	maxSignatureLen = len(signaturePrefix) + 3 + 4*(claimsLength+16+media.MaxGroup+2)/3 + 1 + 43
)

func claimsOf(i Identity, expires time.Time, group string) claims {
	return claims{accountID: i.Account.ID, appID: i.App.ID, keyID: i.Key.ID, grantID: i.GrantID, expires: expires, group: group}
}

// matches reports whether the claims are those of this session. When a key is rotated, a
// login continues with the new key, and so do the signatures that it created.
func (c claims) matches(s oauth.Session) bool {
	return c.accountID == s.Account.ID && c.appID == s.App.ID && c.grantID == s.GrantID && (c.keyID == s.Key.ID || c.grantID != uuid.Nil)
}

func (c claims) encode() []byte {
	version := byte(signatureByKey)
	if c.grantID != uuid.Nil {
		version = signatureByLogin
	}
	text := make([]byte, 0, claimsLength+len(c.grantID)+len(c.group))
	text = append(text, version)
	text = binary.BigEndian.AppendUint64(text, uint64(c.expires.Unix())) //nolint:gosec // a time after 1970
	text = append(text, c.accountID[:]...)
	text = append(text, c.appID[:]...)
	text = append(text, c.keyID[:]...)
	if version == signatureByLogin {
		text = append(text, c.grantID[:]...)
	}
	return append(text, c.group...)
}

func decodeClaims(text []byte) (claims, bool) {
	if len(text) < claimsLength {
		return claims{}, false
	}
	rest := text[claimsLength:]
	var grantID uuid.UUID
	switch {
	case text[0] == signatureByLogin && len(rest) >= len(grantID):
		grantID, rest = uuid.UUID(rest[:len(grantID)]), rest[len(grantID):]
	case text[0] != signatureByKey:
		return claims{}, false
	}
	seconds := binary.BigEndian.Uint64(text[1:9])
	group := string(rest)
	if len(group) > media.MaxGroup || seconds > 1<<40 || !utf8.ValidString(group) || grantID == uuid.Nil && text[0] == signatureByLogin {
		return claims{}, false
	}
	return claims{
		grantID:   grantID,
		expires:   time.Unix(int64(seconds), 0),
		accountID: uuid.UUID(text[9:25]),
		appID:     uuid.UUID(text[25:41]),
		keyID:     uuid.UUID(text[41:57]),
		group:     group,
	}, true
}

// Sign returns an upload signature for the caller's app, bound to group unless it is empty.
// It is valid for SignatureTTL, and no longer than the credential that created it.
func (a *Authenticator) Sign(identity Identity, group string) string {
	return encodeSignature(a.store.Cell(), a.signer, claimsOf(identity, a.now().Add(a.cfg.SignatureTTL), group))
}

// encodeSignature returns the signature as clients send it: the prefix, the number of the
// installation, then claims and MAC, each in URL-safe base64, with a dot between.
func encodeSignature(installation cell.Number, signer *keys.Signer, c claims) string {
	text := c.encode()
	return installation.Credential(signaturePrefix, keys.Encode(text)+"."+keys.Encode(signer.Sign(text)))
}

// decodeSignature returns the claims of a signature that was signed with the server secret or
// the previous one, by this installation. It verifies the MAC before it reads the claims.
func decodeSignature(installation cell.Number, signer *keys.Signer, signature string) (claims, bool) {
	if len(signature) > maxSignatureLen {
		return claims{}, false
	}
	signed, ok := strings.CutPrefix(signature, installation.Credential(signaturePrefix, ""))
	if !ok {
		return claims{}, false
	}
	first, second, ok := strings.Cut(signed, ".")
	if !ok {
		return claims{}, false
	}
	text, ok := keys.Decode(first)
	if !ok {
		return claims{}, false
	}
	mac, ok := keys.Decode(second)
	if !ok || !signer.Verify(text, mac) {
		return claims{}, false
	}
	return decodeClaims(text)
}
