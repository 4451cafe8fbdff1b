package settings

import (
	"bytes"
	"encoding/json"
	"slices"

	"mediastack.dev/runtime/fault"
)

// To add a setting: add a field to Effective and to Layer, add a row to fields, and add the
// field to MediaSettings in api/v1alpha1. The database, the REST document, its OpenAPI
// schema, the MCP tools and the operator follow from fields. What no tool has is in Ceilings and Pictures.

// Bounds of the fields.
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

// Layer is a partial setting: a nil field is not set in this layer. Its JSON form is what
// the database stores.
type Layer struct {
	UseWebP           *bool `json:"useWebP,omitempty"`
	WebPOutputQuality *int  `json:"webpOutputQuality,omitempty"`
	ThumbnailWidth    *int  `json:"thumbnailWidth,omitempty"`
	ThumbnailHeight   *int  `json:"thumbnailHeight,omitempty"`

	Ceilings
	Pictures
}

// fields lists all settings, in the order of documents and schemas.
var fields = []Field{
	booleanField("useWebP", false,
		func(l *Layer) **bool { return &l.UseWebP }, func(e *Effective) *bool { return &e.UseWebP },
		Descriptions{
			Document: "Convert uploaded JPEG and PNG images to WebP.",
			Argument: "Convert JPEG and PNG images to WebP when they are uploaded.",
			Result:   "JPEG and PNG images are converted to WebP.",
		}),
	integerField("webpOutputQuality", 80, MinQuality, MaxQuality,
		func(l *Layer) **int { return &l.WebPOutputQuality }, func(e *Effective) *int { return &e.WebPOutputQuality },
		Descriptions{
			Argument: "Quality of the conversion; higher is better and larger.",
			Result:   "Quality of the conversion.",
		}),
	integerField("thumbnailWidth", 320, MinThumbnail, MaxThumbnail,
		func(l *Layer) **int { return &l.ThumbnailWidth }, func(e *Effective) *int { return &e.ThumbnailWidth },
		Descriptions{
			Document: "Pixels; a thumbnail fits inside the box and is never enlarged.",
			Argument: "Width in pixels that thumbnails fit into; they are never enlarged.",
			Result:   "Width in pixels that thumbnails fit into.",
		}),
	integerField("thumbnailHeight", 320, MinThumbnail, MaxThumbnail,
		func(l *Layer) **int { return &l.ThumbnailHeight }, func(e *Effective) *int { return &e.ThumbnailHeight },
		Descriptions{
			Argument: "Height in pixels that thumbnails fit into.",
			Result:   "Height in pixels that thumbnails fit into.",
		}),
}

// Fields returns all settings, in the order of documents and schemas.
func Fields() []Field { return slices.Clone(fields) }

// Kind is the type of a setting's value, as JSON Schema names it.
type Kind string

// The kinds of a setting.
const (
	Boolean Kind = "boolean"
	Integer Kind = "integer"
)

// Descriptions explain a setting where interfaces publish their schemas.
type Descriptions struct {
	Document string // in the OpenAPI schema of the settings document; may be empty
	Argument string // as an argument of the MCP tool that updates settings
	Result   string // in the result of the MCP tool that reads settings
}

// Field describes a setting.
type Field struct {
	Name         string // in every JSON form: CRD, REST, MCP and database
	Kind         Kind
	Min, Max     int // bounds of an Integer, inclusive
	Descriptions Descriptions

	access accessor
}

// accessor reads and writes the value of a setting in Layer and Effective.
type accessor interface {
	isSet(layer Layer) bool
	// validate checks the value in layer, which is set, against the bounds.
	validate(layer Layer) error
	// set sets the value in layer to what a JSON text says.
	set(layer *Layer, text json.RawMessage) error
	// unsetEqual unsets the value in layer if it equals the effective one.
	unsetEqual(layer *Layer, effective Effective)
	// apply overwrites the effective value with that of layer, if it is set.
	apply(layer Layer, effective *Effective)
	applyDefault(effective *Effective)
}

// typedAccessor implements accessor for values of type T.
type typedAccessor[T bool | int] struct {
	defaultValue T
	inLayer      func(*Layer) **T
	inEffective  func(*Effective) *T
	decode       func(json.RawMessage) (T, error)
	check        func(T) error
}

func (a typedAccessor[T]) isSet(layer Layer) bool { return *a.inLayer(&layer) != nil }

func (a typedAccessor[T]) validate(layer Layer) error { return a.check(**a.inLayer(&layer)) }

func (a typedAccessor[T]) set(layer *Layer, text json.RawMessage) error {
	value, err := a.decode(text)
	if err != nil {
		return err
	}
	*a.inLayer(layer) = &value
	return nil
}

func (a typedAccessor[T]) unsetEqual(layer *Layer, effective Effective) {
	if value := a.inLayer(layer); *value != nil && **value == *a.inEffective(&effective) {
		*value = nil
	}
}

func (a typedAccessor[T]) apply(layer Layer, effective *Effective) {
	if value := *a.inLayer(&layer); value != nil {
		*a.inEffective(effective) = *value
	}
}

func (a typedAccessor[T]) applyDefault(effective *Effective) {
	*a.inEffective(effective) = a.defaultValue
}

func booleanField(name string, defaultValue bool, inLayer func(*Layer) **bool, inEffective func(*Effective) *bool, texts Descriptions) Field {
	return Field{Name: name, Kind: Boolean, Descriptions: texts, access: typedAccessor[bool]{
		defaultValue: defaultValue, inLayer: inLayer, inEffective: inEffective,
		decode: func(text json.RawMessage) (bool, error) {
			var value bool
			if err := json.Unmarshal(text, &value); err != nil || isNull(text) {
				return false, fault.New(fault.Invalid, "%s must be true or false", name)
			}
			return value, nil
		},
		check: func(bool) error { return nil },
	}}
}

func integerField(name string, defaultValue, minValue, maxValue int, inLayer func(*Layer) **int, inEffective func(*Effective) *int, texts Descriptions) Field {
	return Field{Name: name, Kind: Integer, Min: minValue, Max: maxValue, Descriptions: texts, access: typedAccessor[int]{
		defaultValue: defaultValue, inLayer: inLayer, inEffective: inEffective,
		decode: func(text json.RawMessage) (int, error) {
			number, ok := readInteger(text)
			if !ok {
				return 0, fault.New(fault.Invalid, "%s must be an integer", name)
			}
			return number, nil
		},
		check: func(value int) error {
			if value < minValue || value > maxValue {
				return fault.New(fault.Invalid, "%s must be from %d to %d", name, minValue, maxValue)
			}
			return nil
		},
	}}
}

func isNull(text json.RawMessage) bool { return bytes.Equal(bytes.TrimSpace(text), []byte("null")) }
