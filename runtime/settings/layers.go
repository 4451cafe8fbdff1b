package settings

import (
	"encoding/json"
	"slices"

	"mediastack.dev/runtime/fault"
)

// Defaults returns the settings of an account for which nothing is set.
func Defaults() Effective {
	var effective Effective
	for _, f := range fields {
		f.access.applyDefault(&effective)
	}
	return effective
}

// Set sets the named field to the value that a JSON text says. A name that is no setting
// and a value of another type are Invalid; the bounds are checked by Validate.
func (l *Layer) Set(name string, text json.RawMessage) error {
	for _, f := range fields {
		if f.Name == name {
			return f.access.set(l, text)
		}
	}
	switch name {
	case PresetsField:
		presets, err := readPresets(text)
		l.Presets = &presets
		return err
	case OriginalsField:
		var originals *string
		if err := json.Unmarshal(text, &originals); err != nil || originals == nil {
			return fault.New(fault.Invalid, "originals must be public or signed")
		}
		l.Originals = Originals(*originals)
		return nil
	case DerivativesField:
		var derivatives *string
		if err := json.Unmarshal(text, &derivatives); err != nil || derivatives == nil {
			return fault.New(fault.Invalid, "derivatives must be AtUpload or Later")
		}
		l.Derivatives = Derivatives(*derivatives)
		return nil
	}
	return fault.New(fault.Invalid, "unknown setting %q", name)
}

// IsSetting reports whether a setting has this name.
func IsSetting(name string) bool {
	return name == PresetsField || name == OriginalsField || name == DerivativesField || slices.ContainsFunc(fields, func(f Field) bool { return f.Name == name })
}

// Fields returns the names of the fields that the layer sets, in the order of Fields.
func (l Layer) Fields() []string {
	names := []string{}
	for _, f := range fields {
		if f.access.isSet(l) {
			names = append(names, f.Name)
		}
	}
	return names
}

// Validate checks the bounds of the fields that are set.
func (l Layer) Validate() error {
	for _, f := range fields {
		if !f.access.isSet(l) {
			continue
		}
		if err := f.access.validate(l); err != nil {
			return err
		}
	}
	if err := l.Ceilings.Validate(); err != nil {
		return err
	}
	return l.Pictures.Validate()
}

// apply returns base with the fields that the layer sets.
func (l Layer) apply(base Effective) Effective {
	for _, f := range fields {
		f.access.apply(l, &base)
	}
	return base
}

// without returns the layer without the fields whose value equals the effective one.
func (l Layer) without(effective Effective) Layer {
	for _, f := range fields {
		f.access.unsetEqual(&l, effective)
	}
	return l
}

// Layers is everything that is set for an account.
type Layers struct {
	Pinned   Layer
	PinnedBy string // "namespace/name" of the MediaSettings, empty when nothing is pinned
	Tenant   Layer
}

// Effective resolves the layers field by field: the pin, else the tenant's value, else the
// default.
func (l Layers) Effective() Effective { return l.Pinned.apply(l.Tenant.apply(Defaults())) }

// Source names the layer that the value of a field comes from.
type Source string

// The sources of a value.
const (
	FromDefault Source = "default"
	FromTenant  Source = "tenant"
	FromPin     Source = "pinned"
)

// Sources returns the source of every field, by the field's name.
func (l Layers) Sources() map[string]Source {
	sources := make(map[string]Source, len(fields))
	for _, f := range fields {
		switch {
		case f.access.isSet(l.Pinned):
			sources[f.Name] = FromPin
		case f.access.isSet(l.Tenant):
			sources[f.Name] = FromTenant
		default:
			sources[f.Name] = FromDefault
		}
	}
	return sources
}

// FieldsFrom returns the names of the fields whose value comes from source, in the order of
// Fields.
func (l Layers) FieldsFrom(source Source) []string {
	var names []string
	sources := l.Sources()
	for _, f := range fields {
		if sources[f.Name] == source {
			names = append(names, f.Name)
		}
	}
	return names
}
