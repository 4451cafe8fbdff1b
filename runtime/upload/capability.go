package upload

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/media"
)

// Bounds of an upload capability.
const (
	MinCapabilityLifetime = time.Minute
	MaxCapabilityLifetime = 24 * time.Hour
	MaxCapabilityCount    = 1_000_000
	// MaxCapabilityTypes bounds the list of types, MaxRef the reference in bytes.
	MaxCapabilityTypes = 32
	MaxRef             = 255
	maxMediaType       = 127
)

// openGrace is how long after the expiry of a counted capability an upload that began before may reserve its use: for less time
// than its count is kept, so that an upload which is opened late never finds a count that was forgotten.
const openGrace = media.CapabilityRetention / 2

// Capability is what an upload signature permits beyond an upload to an app. A zero field does not
// restrict. The JSON form is signed and stored, so a field is never renamed.
type Capability struct {
	// ID identifies the capability in the database. It cannot be turned back into a signature.
	ID media.SHA256 `json:"id,omitempty"`
	// MaxBytes is the maximum size of the file.
	MaxBytes int64 `json:"maxBytes,omitempty"`
	// Types are the types that the file may have, detected from its bytes: image/png or image/*.
	Types []string `json:"types,omitempty"`
	// Count is the maximum number of drafts.
	Count int `json:"count,omitempty"`
	// Access, Group and Metadata are those of every upload.
	Access   media.Access   `json:"access,omitempty"`
	Group    string         `json:"group,omitempty"`
	Metadata media.Metadata `json:"metadata,omitempty"`
	// Ref is a reference of the server that requested the signature. Every item of the capability has it.
	Ref string `json:"ref,omitempty"`
	// Seal is set if an upload is sealed as soon as it is complete.
	Seal bool `json:"seal,omitempty"`
	// FileName and Caption are those of the item, whatever the upload says.
	FileName string `json:"fileName,omitempty"`
	Caption  string `json:"caption,omitempty"`
	// Requested is set for the capability of a file that an assistant has requested: package handover has a row of it.
	Requested bool `json:"requested,omitempty"`

	// ExpiresAt is when uploads may no longer begin.
	ExpiresAt time.Time `json:"-"`
}

// mediaType is the form of a type of a capability, in lower case.
var mediaType = regexp.MustCompile(`^[a-z0-9][a-z0-9!#$&^_.+-]*/(\*|[a-z0-9][a-z0-9!#$&^_.+-]*)$`)

// ErrCapabilityTypes is the fault of a list of types that is too long, or that is sent and empty: a
// capability without types permits all.
var ErrCapabilityTypes = fault.New(fault.Invalid, "types must have 1 to %d entries; leave it out to permit all types", MaxCapabilityTypes)

// Validate returns an Invalid fault that names the first field out of bounds.
func (c *Capability) Validate() error {
	switch {
	case c.MaxBytes < 0:
		return fault.New(fault.Invalid, "maxBytes must be 1 or more")
	case c.Count < 0 || c.Count > MaxCapabilityCount:
		return fault.New(fault.Invalid, "count must be from 1 to %d", MaxCapabilityCount)
	case len(c.Types) > MaxCapabilityTypes:
		return ErrCapabilityTypes
	}
	for _, one := range c.Types {
		if err := media.CheckTypeAlias(one); err != nil {
			return err
		}
		if len(one) > maxMediaType || !mediaType.MatchString(one) {
			return fault.New(fault.Invalid, "types must be media types such as image/png or image/*, without parameters, unlike %.100q", one)
		}
	}
	if err := (media.Fields{FileName: c.FileName, Caption: c.Caption, Access: c.Access, Group: c.Group, Metadata: c.Metadata}).Validate(); err != nil {
		return err
	}
	return media.CheckText("ref", c.Ref, MaxRef, "")
}

// Apply returns the fields of an upload with the values that the capability sets. Another value for one
// of them is Forbidden, by its name. A nil capability sets nothing.
func (c *Capability) Apply(fields media.Fields) (media.Fields, error) {
	if c == nil {
		return fields, nil
	}
	var err error
	if fields.Access, err = fixed(c, "access", c.Access, fields.Access); err != nil {
		return media.Fields{}, err
	}
	if fields.Group, err = fixed(c, "group", c.Group, fields.Group); err != nil {
		return media.Fields{}, err
	}
	// A browser sends the name of the file that the user has chosen, so another name is no error.
	fields.FileName, fields.Caption = cmp.Or(c.FileName, fields.FileName), cmp.Or(c.Caption, fields.Caption)
	merged := media.Metadata{}
	maps.Copy(merged, fields.Metadata)
	for _, key := range slices.Sorted(maps.Keys(c.Metadata)) {
		if sent, ok := fields.Metadata[key]; ok && sent != c.Metadata[key] {
			return media.Fields{}, c.fieldSet("metadata." + key)
		}
		merged[key] = c.Metadata[key]
	}
	if len(merged) > 0 {
		fields.Metadata = merged
	}
	fields.MimeType = c.declaredType(fields.MimeType)
	return fields, nil
}

// fixed returns the value of a field that the capability may set.
func fixed[T ~string](c *Capability, name string, set, sent T) (T, error) {
	if set != "" && sent != "" && set != sent {
		return "", c.fieldSet(name)
	}
	if set != "" {
		return set, nil
	}
	return sent, nil
}

// fieldSet returns the fault of another value for a field that the capability sets.
func (c *Capability) fieldSet(name string) error {
	if c.Requested {
		return fault.New(fault.Forbidden, "%s is set by who asks for the file: leave it out", name)
	}
	return fault.New(fault.Forbidden, "%s is set by the upload signature: leave it out", name)
}

// declaredType returns the type that a client declared. It does not count where the capability has
// types: they are held against the bytes.
func (c *Capability) declaredType(declared string) string {
	if c != nil && len(c.Types) > 0 {
		return ""
	}
	return declared
}

// checkType returns a fault for a detected type that the capability does not permit.
func (c *Capability) checkType(detected string) error {
	if c == nil || len(c.Types) == 0 {
		return nil
	}
	kind, _, _ := strings.Cut(detected, "/")
	if slices.Contains(c.Types, detected) || slices.Contains(c.Types, kind+"/*") {
		return nil
	}
	if c.Requested {
		return fault.New(fault.UnsupportedType, "the file is %s, by its bytes; this address takes %s", detected, strings.Join(c.Types, ", "))
	}
	return fault.New(fault.UnsupportedType, "the file is %s; the upload signature permits %s", detected, strings.Join(c.Types, ", "))
}

// checkSize returns a fault for a file that is larger than the capability permits.
func (c *Capability) checkSize(size int64) error {
	if c == nil || c.MaxBytes == 0 || size <= c.MaxBytes {
		return nil
	}
	if c.Requested {
		return fault.New(fault.TooLarge, "the file is larger than this address takes, %d bytes", c.MaxBytes)
	}
	return fault.New(fault.TooLarge, "the file is larger than the upload signature permits, %d bytes", c.MaxBytes)
}

// MaxSize returns the maximum size of a file in an account with this maxUploadSize.
func (c *Capability) MaxSize(maxUploadSize int64) int64 {
	if c == nil || c.MaxBytes == 0 {
		return maxUploadSize
	}
	return min(c.MaxBytes, maxUploadSize)
}

// OnlyGroup reports whether the capability sets nothing but a group.
func (c *Capability) OnlyGroup() bool {
	return c.MaxBytes == 0 && len(c.Types) == 0 && c.Count == 0 && c.Access == "" && len(c.Metadata) == 0 && c.Ref == "" && !c.Seal && c.FileName == "" && c.Caption == "" && !c.Requested
}

// counted reports whether the capability limits the number of drafts.
func (c *Capability) counted() bool { return c != nil && c.Count > 0 }

// recordedFirst reports whether an upload is recorded before it is stored: what counts it, or seals it, takes several statements, which
// must not wait for others while they hold a connection.
func (c *Capability) recordedFirst() bool { return c.counted() || c != nil && c.Seal }

// complete returns an item as the capability leaves it: with the reference, and sealed if it says so. One whose file is to be checked is sealed
// after that.
func (c *Capability) complete(item media.Item) media.Item {
	if c == nil {
		return item
	}
	item.Ref = c.Ref
	switch {
	case c.Seal && item.Check == media.CheckWaiting:
		item.Check, item.Version = media.CheckSealWanted, item.Version+1
	case c.Seal:
		sealed := item.CreatedAt
		item.SealedAt, item.Version = &sealed, item.Version+1 // as a seal leaves it
	}
	return item
}

// Is reports whether two capabilities are the same.
func (c *Capability) Is(other *Capability) bool {
	return c != nil && other != nil && len(c.ID) > 0 && slices.Equal(c.ID, other.ID)
}

// Used returns the fault of a capability of which every use is taken.
func (c *Capability) Used() error {
	if c.Requested {
		return errRequestUsed
	}
	return errCapabilityUsed
}

// expired returns the fault of an upload that began in time and took too long.
func (c *Capability) expired() error {
	if c.Requested {
		return errRequestExpired
	}
	return errCapabilityExpired
}

// The faults of capabilities. Who hands a file over has no upload signature, but the address of a request.
var (
	errCapabilityUsed    = fault.New(fault.InvalidSignature, "the upload signature was used as often as it permits")
	errRequestUsed       = fault.New(fault.InvalidSignature, "this address takes one file, which was handed over already, or is on its way")
	errCapabilityExpired = fault.New(fault.InvalidSignature, "the upload signature has expired")
	errRequestExpired    = fault.New(fault.InvalidSignature, "this address has expired: ask for a new one")
)
