// Package settings turns three layers into effective image settings: what a
// MediaSettings object pins, what the tenant chose, and the defaults, field by
// field. The operator writes pins, the tenant's edges (REST, MCP) read and choose.
package settings

import (
	"context"
	"slices"
	"strings"

	"github.com/google/uuid"

	"mediastack.dev/runtime/fault"
)

// Limits of the fields (docs/specification.md, "Limits").
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

// without returns the layer without the fields whose value is already the effective one.
func (l Layer) without(effective Effective) Layer {
	if l.UseWebP != nil && *l.UseWebP == effective.UseWebP {
		l.UseWebP = nil
	}
	if l.WebPOutputQuality != nil && *l.WebPOutputQuality == effective.WebPOutputQuality {
		l.WebPOutputQuality = nil
	}
	if l.ThumbnailWidth != nil && *l.ThumbnailWidth == effective.ThumbnailWidth {
		l.ThumbnailWidth = nil
	}
	if l.ThumbnailHeight != nil && *l.ThumbnailHeight == effective.ThumbnailHeight {
		l.ThumbnailHeight = nil
	}
	return l
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

// Sources returns the source of every field, by the field's JSON name.
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
	// Layers returns what is set for the account; an account with nothing set gives the zero Layers.
	Layers(ctx context.Context, accountID uuid.UUID) (Layers, error)
	// Choose passes what is set for the account to decide, and sets the tenant's fields that
	// decide returns; it writes nothing when decide fails or returns no field. All of it
	// is one transaction that no pin can slip into.
	Choose(ctx context.Context, accountID uuid.UUID, decide func(Layers) (Layer, error)) (Layers, error)
	// Pin replaces the account's pins; it writes nothing when they are already so.
	Pin(ctx context.Context, accountID uuid.UUID, pins Layer, by string) error
	// Unpin removes the pins that by made, and no others.
	Unpin(ctx context.Context, accountID uuid.UUID, by string) error
}

// Service is what can be done with settings.
type Service struct{ store Store }

// NewService joins the use cases to their store.
func NewService(store Store) *Service { return &Service{store: store} }

// Get returns the layers of an account; NotFound never happens, an unset account has the zero Layers.
func (s *Service) Get(ctx context.Context, accountID uuid.UUID) (Layers, error) {
	return s.store.Layers(ctx, accountID)
}

// Outcome is the result of an update: what is set afterwards, and which fields changed.
type Outcome struct {
	Layers
	Changed []string // names, in the order of the specification; empty when nothing changed
}

// Update applies a tenant's change, all or nothing. Fields that already have the
// requested value are ignored, so a document that was read can be written back with one
// field changed: the other fields keep their source, and pinned fields are accepted.
// Another value for a pinned field is a Conflict that names the MediaSettings object.
func (s *Service) Update(ctx context.Context, accountID uuid.UUID, change Layer) (Outcome, error) {
	if err := change.Validate(); err != nil {
		return Outcome{}, err
	}
	var changed []string
	layers, err := s.store.Choose(ctx, accountID, func(current Layers) (Layer, error) {
		fresh := change.without(current.Effective())
		changed = fresh.Fields()
		pinned := current.Pinned.Fields()
		refused := slices.DeleteFunc(fresh.Fields(), func(name string) bool { return !slices.Contains(pinned, name) })
		if len(refused) > 0 {
			return Layer{}, fault.New(fault.Conflict, "%s: pinned by MediaSettings %s", strings.Join(refused, ", "), current.PinnedBy)
		}
		return fresh, nil
	})
	return Outcome{Layers: layers, Changed: changed}, err
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
