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
	"mediastack.dev/runtime/upload"
)

// claims is the content of an upload signature: the credential that created it, its expiry
// and the group that it is bound to.
type claims struct {
	accountID, appID, keyID uuid.UUID
	grantID                 uuid.UUID // of the login that created it; zero for a key
	expires                 time.Time // whole seconds
	group                   string    // empty = not bound
	// capabilityJSON is what a signature that is a capability ends with, and capability what it says; such
	// a signature has no group here.
	capabilityJSON string
	capability     *upload.Capability
	// assistant is set for a capability that was created at MCP with a key.
	assistant bool
}

// signaturePrefix begins every upload signature.
const signaturePrefix = "mus_"

const (
	// The version of a signature. One that was created by a login contains the id of the grant as
	// well. A capability ends with JSON instead of the group.
	signatureByKey    = 1
	signatureByLogin  = 2
	capabilityByKey   = 3
	capabilityByLogin = 4
	// capabilityByKeyAtMCP is a capability that the tool policy limits, although a key created it.
	capabilityByKeyAtMCP = 5
	// claimsLength is the length of claims without a group or a capability: version, expiry, three ids.
	claimsLength = 1 + 8 + 3*16
	// maxSignatureLen bounds a signature, in characters.
	maxSignatureLen = len(signaturePrefix) + 3 + 4*(claimsLength+16+maxCapability+2)/3 + 1 + 43
)

func claimsOf(i Identity, expires time.Time, group string) claims {
	return claims{accountID: i.Account.ID, appID: i.App.ID, keyID: i.Key.ID, grantID: i.GrantID, expires: expires, group: group, assistant: i.Assistant}
}

// matches reports whether the claims are those of this session. When a key is rotated, a
// login continues with the new key, and so do the signatures that it created.
func (c claims) matches(s oauth.Session) bool {
	return c.accountID == s.Account.ID && c.appID == s.App.ID && c.grantID == s.GrantID && (c.keyID == s.Key.ID || c.grantID != uuid.Nil)
}

func (c claims) encode() []byte {
	version := byte(signatureByKey)
	if c.capabilityJSON != "" {
		version = capabilityByKey
	}
	switch {
	case c.grantID != uuid.Nil:
		version++
	case c.assistant && version == capabilityByKey:
		version = capabilityByKeyAtMCP
	}
	text := make([]byte, 0, claimsLength+len(c.grantID)+len(c.group)+len(c.capabilityJSON))
	text = append(text, version)
	text = binary.BigEndian.AppendUint64(text, uint64(c.expires.Unix())) //nolint:gosec // a time after 1970
	text = append(text, c.accountID[:]...)
	text = append(text, c.appID[:]...)
	text = append(text, c.keyID[:]...)
	if c.grantID != uuid.Nil {
		text = append(text, c.grantID[:]...)
	}
	return append(append(text, c.group...), c.capabilityJSON...)
}

func decodeClaims(text []byte) (claims, bool) {
	if len(text) < claimsLength {
		return claims{}, false
	}
	version, rest := text[0], text[claimsLength:]
	if version < signatureByKey || version > capabilityByKeyAtMCP {
		return claims{}, false
	}
	var grantID uuid.UUID
	if version == signatureByLogin || version == capabilityByLogin {
		if len(rest) < len(grantID) {
			return claims{}, false
		}
		if grantID, rest = uuid.UUID(rest[:len(grantID)]), rest[len(grantID):]; grantID == uuid.Nil {
			return claims{}, false
		}
	}
	seconds := binary.BigEndian.Uint64(text[1:9])
	if seconds > 1<<40 {
		return claims{}, false
	}
	decoded := claims{
		assistant: version == capabilityByKeyAtMCP,
		grantID:   grantID,
		expires:   time.Unix(int64(seconds), 0),
		accountID: uuid.UUID(text[9:25]),
		appID:     uuid.UUID(text[25:41]),
		keyID:     uuid.UUID(text[41:57]),
	}
	if version >= capabilityByKey {
		var ok bool
		decoded.capabilityJSON = string(rest)
		decoded.capability, ok = decodeCapability(rest, decoded.expires)
		return decoded, ok
	}
	decoded.group = string(rest)
	return decoded, len(decoded.group) <= media.MaxGroup && utf8.ValidString(decoded.group)
}

// Sign returns an upload signature for the caller's app, bound to group unless it is empty.
// It is valid for SignatureTTL, and no longer than the credential that created it. Issue returns those
// that callers request.
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
