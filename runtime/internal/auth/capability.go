package auth

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/handover"
	"mediastack.dev/runtime/internal/api"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/settings"
	"mediastack.dev/runtime/upload"
)

// maxCapability bounds a capability in an upload signature, in bytes: a header that proxies accept by
// default has 8 KiB.
const maxCapability = 4 << 10

// nonceLength is the length of what makes a capability unique, in bytes.
const nonceLength = handover.NonceLength

// signedCapability is a capability as an upload signature contains it.
type signedCapability struct {
	Nonce []byte `json:"nonce"`
	upload.Capability
}

// encodeCapability returns the JSON of a capability with a new nonce.
func encodeCapability(c upload.Capability) (string, error) {
	nonce := make([]byte, nonceLength)
	_, _ = rand.Read(nonce) // it never fails
	return encodeCapabilityWith(nonce, c)
}

// encodeCapabilityWith returns the JSON of a capability with a nonce.
func encodeCapabilityWith(nonce []byte, c upload.Capability) (string, error) {
	signed := signedCapability{Nonce: nonce, Capability: c}
	signed.ID = nil
	text, err := json.Marshal(signed)
	if err != nil {
		return "", fmt.Errorf("encode an upload capability: %w", err)
	}
	if len(text) > maxCapability {
		return "", fault.New(fault.Invalid, "what the signature permits takes %d bytes, and at most %d fit into a header: make metadata, types or ref shorter", len(text), maxCapability)
	}
	return string(text), nil
}

// decodeCapability returns the capability of a signature whose MAC is valid. It rejects fields that this
// version does not know: a restriction that is not understood cannot be kept.
func decodeCapability(text []byte, expires time.Time) (*upload.Capability, bool) {
	if len(text) > maxCapability {
		return nil, false
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	var signed signedCapability
	if err := decoder.Decode(&signed); err != nil || decoder.InputOffset() != int64(len(text)) {
		return nil, false
	}
	if len(signed.Nonce) != nonceLength || len(signed.ID) != 0 || signed.Validate() != nil {
		return nil, false
	}
	id := sha256.Sum256(signed.Nonce)
	signed.ID, signed.ExpiresAt = id[:], expires
	return &signed.Capability, true
}

// Issue returns a new upload signature for the caller's app: a capability if the request restricts more
// than the group, or a MediaSettings pins a ceiling.
func (a *Authenticator) Issue(ctx context.Context, identity Identity, request api.SignatureRequest) (signature string, expires time.Time, err error) {
	return a.IssueWithin(ctx, identity, request, a.cfg.SignatureTTL)
}

// IssueWithin is Issue for a signature that is valid for most at most, if the request names no time.
func (a *Authenticator) IssueWithin(ctx context.Context, identity Identity, request api.SignatureRequest, most time.Duration) (signature string, expires time.Time, err error) {
	capability, err := requestedCapability(request)
	if err != nil {
		return "", time.Time{}, err
	}
	if err := checkSeal(identity, capability); err != nil {
		return "", time.Time{}, err
	}
	lifetime, restricted := min(most, a.cfg.SignatureTTL), request.ExpiresIn != nil
	if restricted {
		if lifetime, err = requestedLifetime(*request.ExpiresIn); err != nil {
			return "", time.Time{}, err
		}
	}
	pins, err := a.pins(ctx, identity)
	if err != nil {
		return "", time.Time{}, err
	}
	if lifetime, err = underLifetimeCeiling(pins, lifetime, restricted); err != nil {
		return "", time.Time{}, err
	}
	if capability.MaxBytes, err = underSizeCeiling(pins, capability.MaxBytes); err != nil {
		return "", time.Time{}, err
	}
	claims := claimsOf(identity, a.now().Add(lifetime).Truncate(time.Second), capability.Group)
	// Only a capability says that an assistant has created it: its uploads count towards the ceilings.
	if restricted || !capability.OnlyGroup() || identity.Guard != nil && identity.Guard.Ceilings.On() {
		claims.group = ""
		if claims.capabilityJSON, err = encodeCapability(capability); err != nil {
			return "", time.Time{}, err
		}
	}
	return encodeSignature(a.store.Cell(), a.signer, claims), claims.expires, nil
}

// checkSeal rejects a capability that seals what the caller may not seal.
func checkSeal(identity Identity, capability upload.Capability) error {
	if capability.Seal && identity.underToolPolicy() && !identity.Account.ToolPolicy.Allows(account.SealMedia) {
		return fault.New(fault.Forbidden, "%s is not allowed for assistants and connected applications in this account: leave out seal", account.SealMedia)
	}
	if capability.Seal && capability.Access != media.Private && identity.Guard.Publishes() != nil {
		return errPublishingSignature
	}
	return nil
}

// errPublishingSignature is the fault of a signature that would publish what the owner of the account wants to be asked about.
var errPublishingSignature = fault.New(fault.Forbidden, "the account wants its owner to allow what becomes public: send access private, or leave out seal and call %s afterwards", account.SealMedia)

// requestedCapability returns what a request asks for.
func requestedCapability(request api.SignatureRequest) (upload.Capability, error) {
	if request.MaxBytes != nil && *request.MaxBytes < 1 {
		return upload.Capability{}, fault.New(fault.Invalid, "maxBytes must be 1 or more")
	}
	if request.Count != nil && *request.Count < 1 {
		return upload.Capability{}, fault.New(fault.Invalid, "count must be from 1 to %d", upload.MaxCapabilityCount)
	}
	if request.Types != nil && len(*request.Types) == 0 {
		return upload.Capability{}, upload.ErrCapabilityTypes
	}
	c := upload.Capability{
		MaxBytes: value(request.MaxBytes), Count: value(request.Count), Access: media.Access(value(request.Access)), Group: value(request.Group),
		Metadata: media.Metadata(value(request.Metadata)), Ref: value(request.Ref), Seal: value(request.Seal),
	}
	for _, one := range value(request.Types) {
		c.Types = append(c.Types, strings.ToLower(one))
	}
	return c, c.Validate()
}

func requestedLifetime(seconds int) (time.Duration, error) {
	if seconds < int(upload.MinCapabilityLifetime.Seconds()) || seconds > int(upload.MaxCapabilityLifetime.Seconds()) {
		return 0, fault.New(fault.Invalid, "expiresIn must be from %d to %d seconds", int(upload.MinCapabilityLifetime.Seconds()), int(upload.MaxCapabilityLifetime.Seconds()))
	}
	return time.Duration(seconds) * time.Second, nil // after the bounds: a large number would overflow
}

// pins returns the pins of the caller's account.
func (a *Authenticator) pins(ctx context.Context, identity Identity) (settings.Layers, error) {
	if a.settings == nil || identity.Account.ID == uuid.Nil {
		return settings.Layers{}, nil
	}
	return a.settings.Get(ctx, identity.Account.ID)
}

// underLifetimeCeiling returns the lifetime of a signature under the pinned one. A lifetime that was
// requested is rejected over it, the default is shortened.
func underLifetimeCeiling(pins settings.Layers, lifetime time.Duration, requested bool) (time.Duration, error) {
	pinned := pins.Pinned.MaxSignatureSeconds
	if pinned == nil || lifetime <= time.Duration(*pinned)*time.Second {
		return lifetime, nil
	}
	if requested {
		return 0, fault.New(fault.Conflict, "expiresIn must be at most %d: pinned by MediaSettings %s", *pinned, pins.PinnedBy)
	}
	return time.Duration(*pinned) * time.Second, nil
}

// underSizeCeiling returns the maximum size of a file under the pinned one; 0 = none.
func underSizeCeiling(pins settings.Layers, maxBytes int64) (int64, error) {
	pinned := pins.Pinned.MaxSignatureBytes
	switch {
	case pinned == nil:
		return maxBytes, nil
	case maxBytes > *pinned:
		return 0, fault.New(fault.Conflict, "maxBytes must be at most %d: pinned by MediaSettings %s", *pinned, pins.PinnedBy)
	case maxBytes == 0:
		return *pinned, nil
	}
	return maxBytes, nil
}

// value returns what an optional field points to, or the zero value.
func value[T any](field *T) T {
	if field == nil {
		var zero T
		return zero
	}
	return *field
}
