package settings

import "mediastack.dev/runtime/fault"

// Bounds of the ceilings.
const (
	MinSignatureSeconds = 60
	MaxSignatureSeconds = 24 * 60 * 60
)

// Ceilings limit the upload signatures of an account; nil = no ceiling. Only a pin sets them: they are
// no settings of a tenant, so that they are in neither the settings document nor the tools.
type Ceilings struct {
	// MaxSignatureSeconds is the longest lifetime.
	MaxSignatureSeconds *int `json:"maxSignatureSeconds,omitempty"`
	// MaxSignatureBytes is the largest file.
	MaxSignatureBytes *int64 `json:"maxSignatureBytes,omitempty"`
}

// Names returns the names of the ceilings that are set.
func (c Ceilings) Names() []string {
	var names []string
	if c.MaxSignatureSeconds != nil {
		names = append(names, "maxSignatureSeconds")
	}
	if c.MaxSignatureBytes != nil {
		names = append(names, "maxSignatureBytes")
	}
	return names
}

// Validate checks the bounds.
func (c Ceilings) Validate() error {
	if s := c.MaxSignatureSeconds; s != nil && (*s < MinSignatureSeconds || *s > MaxSignatureSeconds) {
		return fault.New(fault.Invalid, "maxSignatureSeconds must be from %d to %d", MinSignatureSeconds, MaxSignatureSeconds)
	}
	if b := c.MaxSignatureBytes; b != nil && *b < 1 {
		return fault.New(fault.Invalid, "maxSignatureBytes must be 1 or more")
	}
	return nil
}
