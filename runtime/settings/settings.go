// Package settings turns three layers into effective image settings: what a
// MediaSettings object pins, what the tenant chose, and the defaults, field by
// field. The operator writes pins, the tenant's edges (REST, MCP) read and choose.
package settings

import (
	"context"
	"strings"

	"github.com/google/uuid"

	"mediastack.dev/runtime/fault"
)

// Limits of the fields (specification, "Limits", and DESIGN.md).
const (
	MinQuality   = 0
	MaxQuality   = 100
	MinThumbnail = 1
	MaxThumbnail = 4096 // pixels, either side
)

// Effective are the settings that an upload is processed with.
type Effective struct {
	UseWebP           bool `json:"useWebP"`
	WebPOutputQuality int  `json:"webpOutputQuality"`
	ThumbnailWidth    int  `json:"thumbnailWidth"`
	ThumbnailHeight   int  `json:"thumbnailHeight"`
}

// Defaults are the settings of an account for which nobody set anything.
func Defaults() Effective {
	return Effective{UseWebP: false, WebPOutputQuality: 80, ThumbnailWidth: 320, ThumbnailHeight: 320}
}

// Layer is a partial setting: a nil field is not set in this layer.
type Layer struct {
	UseWebP           *bool `json:"useWebP,omitempty"`
	WebPOutputQuality *int  `json:"webpOutputQuality,omitempty"`
	ThumbnailWidth    *int  `json:"thumbnailWidth,omitempty"`
	ThumbnailHeight   *int  `json:"thumbnailHeight,omitempty"`
}

// Fields names the fields that the layer sets, in the order of the specification.
func (l Layer) Fields() []string {
	names := []string{}
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"useWebP", l.UseWebP != nil},
		{"webpOutputQuality", l.WebPOutputQuality != nil},
		{"thumbnailWidth", l.ThumbnailWidth != nil},
		{"thumbnailHeight", l.ThumbnailHeight != nil},
	} {
		if f.set {
			names = append(names, f.name)
		}
	}
	return names
}

// Validate checks the bounds of the fields that are set.
func (l Layer) Validate() error {
	for _, f := range []struct {
		name     string
		value    *int
		min, max int
	}{
		{"webpOutputQuality", l.WebPOutputQuality, MinQuality, MaxQuality},
		{"thumbnailWidth", l.ThumbnailWidth, MinThumbnail, MaxThumbnail},
		{"thumbnailHeight", l.ThumbnailHeight, MinThumbnail, MaxThumbnail},
	} {
		if f.value != nil && (*f.value < f.min || *f.value > f.max) {
			return fault.New(fault.Invalid, "%s must be from %d to %d", f.name, f.min, f.max)
		}
	}
	return nil
}

// over puts the layer on top of what is below it.
func (l Layer) over(below Effective) Effective {
	if l.UseWebP != nil {
		below.UseWebP = *l.UseWebP
	}
	if l.WebPOutputQuality != nil {
		below.WebPOutputQuality = *l.WebPOutputQuality
	}
	if l.ThumbnailWidth != nil {
		below.ThumbnailWidth = *l.ThumbnailWidth
	}
	if l.ThumbnailHeight != nil {
		below.ThumbnailHeight = *l.ThumbnailHeight
	}
	return below
}

// Layers is everything that is set for an account.
type Layers struct {
	Pinned   Layer
	PinnedBy string // "namespace/name" of the MediaSettings, empty when nothing is pinned
	Tenant   Layer
}

// Effective resolves the layers: pin, else tenant's choice, else default.
func (l Layers) Effective() Effective { return l.Pinned.over(l.Tenant.over(Defaults())) }

// Source says where the value of a field comes from.
type Source string

// The sources of a value.
const (
	FromDefault Source = "default"
	FromTenant  Source = "tenant"
	FromPin     Source = "pinned"
)

// Sources gives the source of every field, by the field's JSON name.
func (l Layers) Sources() map[string]Source {
	sources := map[string]Source{
		"useWebP": FromDefault, "webpOutputQuality": FromDefault, "thumbnailWidth": FromDefault, "thumbnailHeight": FromDefault,
	}
	for _, name := range l.Tenant.Fields() {
		sources[name] = FromTenant
	}
	for _, name := range l.Pinned.Fields() {
		sources[name] = FromPin
	}
	return sources
}

// Store keeps layers. PostgreSQL implements it.
type Store interface {
	// Layers gives what is set for the account; an account with nothing set gives the zero Layers.
	Layers(ctx context.Context, accountID uuid.UUID) (Layers, error)
	// Choose sets the tenant's fields that are not nil, unless decide refuses; both
	// happen in one transaction that no pin can slip into.
	Choose(ctx context.Context, accountID uuid.UUID, change Layer, decide func(Layers) error) (Layers, error)
	// Pin replaces the account's pins; it writes nothing when they are already so.
	Pin(ctx context.Context, accountID uuid.UUID, pins Layer, by string) error
	// Unpin removes the pins that by made, and no others.
	Unpin(ctx context.Context, accountID uuid.UUID, by string) error
}

// Service is what can be done with settings.
type Service struct{ store Store }

// NewService joins the use cases to their store.
func NewService(store Store) *Service { return &Service{store: store} }

// Get gives the layers of an account; NotFound never happens, an unset account has the zero Layers.
func (s *Service) Get(ctx context.Context, accountID uuid.UUID) (Layers, error) {
	return s.store.Layers(ctx, accountID)
}

// Update applies a tenant's change: only the fields that are set, all or nothing.
// A pinned field makes a Conflict that names the object which pins it.
func (s *Service) Update(ctx context.Context, accountID uuid.UUID, change Layer) (Layers, error) {
	if err := change.Validate(); err != nil {
		return Layers{}, err
	}
	return s.store.Choose(ctx, accountID, change, func(current Layers) error {
		var refused []string
		pinned := current.Pinned.Fields()
		for _, name := range change.Fields() {
			for _, pin := range pinned {
				if name == pin {
					refused = append(refused, name)
				}
			}
		}
		if len(refused) > 0 {
			return fault.New(fault.Conflict, "%s: pinned by MediaSettings %s", strings.Join(refused, ", "), current.PinnedBy)
		}
		return nil
	})
}

// Pin fixes fields on behalf of the MediaSettings object by ("namespace/name").
func (s *Service) Pin(ctx context.Context, accountID uuid.UUID, pins Layer, by string) error {
	if err := pins.Validate(); err != nil {
		return err
	}
	return s.store.Pin(ctx, accountID, pins, by)
}

// Unpin takes back what by pinned.
func (s *Service) Unpin(ctx context.Context, accountID uuid.UUID, by string) error {
	return s.store.Unpin(ctx, accountID, by)
}
