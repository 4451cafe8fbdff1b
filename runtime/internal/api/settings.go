package api

import (
	"bytes"
	"encoding/json"
	"maps"

	"mediastack.dev/runtime/settings"
)

// Settings is the settings document, which is the same on every interface. Its fields, and
// their schema in the OpenAPI document, follow from the table in package settings.
type Settings struct {
	settings.Effective
	// Presets are those in effect, Originals is who may fetch the originals of public items, and Derivatives is when thumbnails and
	// conversions are made. The tools have none of them.
	Presets     []settings.EffectivePreset `json:"presets,omitempty"`
	Originals   settings.Originals         `json:"originals,omitempty"`
	Derivatives settings.Derivatives       `json:"derivatives,omitempty"`
	// Sources has the source of every setting.
	Sources Sources `json:"sources"`
	// PinnedBy is the MediaSettings object that pins settings; empty if none does.
	PinnedBy string `json:"pinnedBy,omitempty"`
	// Changed lists the settings whose value changed, in the answer to a change only.
	Changed *[]string `json:"changed,omitempty"`
}

// SettingsChange is what a change of the settings sets.
type SettingsChange = settings.Layer

// NewSettings returns the settings document of an account. What nobody has set of the pictures is not in it, so that it is
// for other clients what it was before there were presets.
func NewSettings(layers settings.Layers) Settings {
	document := NewToolSettings(layers)
	document.Presets = layers.Presets()
	if originals, source := layers.Originals(); source != settings.FromDefault {
		document.Originals, document.Sources[settings.OriginalsField] = originals, source
	}
	if derivatives, source := layers.Derivatives(); source != settings.FromDefault {
		document.Derivatives, document.Sources[settings.DerivativesField] = derivatives, source
	}
	if len(layers.Pinned.Pictures.Names()) > 0 {
		document.PinnedBy = layers.PinnedBy
	}
	return document
}

// NewToolSettings returns the settings document for tools: that of docs/specification.md.
func NewToolSettings(layers settings.Layers) Settings {
	document := Settings{Effective: layers.Effective(), Sources: layers.Sources()}
	if len(layers.Pinned.Fields()) > 0 {
		document.PinnedBy = layers.PinnedBy
	}
	return document
}

// Sources maps the names of settings to the sources of their values.
type Sources map[string]settings.Source

// MarshalJSON returns an object in the order of settings.Fields; those of Pictures follow if they are set.
func (s Sources) MarshalJSON() ([]byte, error) {
	var out bytes.Buffer
	out.WriteByte('{')
	for i, field := range settings.Fields() {
		if i > 0 {
			out.WriteByte(',')
		}
		name, err := json.Marshal(field.Name)
		if err != nil {
			return nil, err
		}
		source, err := json.Marshal(s[field.Name])
		if err != nil {
			return nil, err
		}
		out.Write(name)
		out.WriteByte(':')
		out.Write(source)
	}
	for _, name := range []string{settings.OriginalsField, settings.DerivativesField} {
		if source, ok := s[name]; ok {
			out.WriteString(`,"` + name + `":"` + string(source) + `"`)
		}
	}
	out.WriteByte('}')
	return out.Bytes(), nil
}

// addSettings adds the settings to the schemas of the document and of a change, which
// openapi.yaml leaves to this table.
func addSettings(schemas map[string]any) {
	document, _ := schemas["Settings"].(map[string]any)
	properties, _ := document["properties"].(map[string]any)
	sources, _ := properties["sources"].(map[string]any)
	change, _ := schemas["SettingsChange"].(map[string]any)
	changed, _ := change["properties"].(map[string]any)
	var names []any
	sourceOf := map[string]any{}
	for _, field := range settings.Fields() {
		schema := map[string]any{"type": string(field.Kind)}
		if field.Kind == settings.Integer {
			schema["minimum"], schema["maximum"] = field.Min, field.Max
		}
		changed[field.Name] = schema
		properties[field.Name] = described(schema, field.Descriptions.Document)
		sourceOf[field.Name] = map[string]any{"$ref": "#/components/schemas/Source"}
		names = append(names, field.Name)
	}
	document["required"] = append(append([]any{}, names...), "sources")
	for _, name := range []string{settings.OriginalsField, settings.DerivativesField} {
		sourceOf[name] = map[string]any{"$ref": "#/components/schemas/Source"}
	}
	sources["properties"], sources["required"] = sourceOf, names
}

// described returns a copy of a schema with a description, unless that is empty.
func described(schema map[string]any, description string) map[string]any {
	described := maps.Clone(schema)
	if description != "" {
		described["description"] = description
	}
	return described
}
