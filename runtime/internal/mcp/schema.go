package mcp

import (
	"bytes"
	"encoding/json"
)

// schema is a JSON Schema (2020-12), as far as the tools need one. It tells models what
// may be sent; the use cases hold to it.
type schema struct {
	Type        string     `json:"type,omitempty"`
	Title       string     `json:"title,omitempty"`
	Description string     `json:"description,omitempty"`
	Format      string     `json:"format,omitempty"`
	Enum        []string   `json:"enum,omitempty"`
	Const       any        `json:"const,omitempty"`
	Default     any        `json:"default,omitempty"`
	Minimum     *int       `json:"minimum,omitempty"`
	Maximum     *int       `json:"maximum,omitempty"`
	MinLength   int        `json:"minLength,omitempty"`
	MaxLength   int        `json:"maxLength,omitempty"`
	Items       *schema    `json:"items,omitempty"`
	Properties  properties `json:"properties,omitempty"`
	Required    []string   `json:"required,omitempty"`
	// AdditionalProperties is false where anything else is refused, nil where more may
	// come one day.
	AdditionalProperties *bool `json:"additionalProperties,omitempty"`
	// Encoding is that of the bytes in a string.
	Encoding string `json:"contentEncoding,omitempty"`
}

// property is a named field of an object.
type property struct {
	name string
	schema
}

// properties keep the order in which they are written: models read it.
type properties []property

// MarshalJSON writes an object.
func (p properties) MarshalJSON() ([]byte, error) {
	var out bytes.Buffer
	out.WriteByte('{')
	for i, one := range p {
		if i > 0 {
			out.WriteByte(',')
		}
		name, err := json.Marshal(one.name)
		if err != nil {
			return nil, err
		}
		value, err := json.Marshal(one.schema)
		if err != nil {
			return nil, err
		}
		out.Write(name)
		out.WriteByte(':')
		out.Write(value)
	}
	out.WriteByte('}')
	return out.Bytes(), nil
}

func (p properties) has(name string) bool {
	for _, one := range p {
		if one.name == name {
			return true
		}
	}
	return false
}

func (p properties) names() []string {
	names := make([]string, 0, len(p))
	for _, one := range p {
		names = append(names, one.name)
	}
	return names
}

// arguments is the schema of an input: nothing but what is named is taken.
func takes(required []string, fields ...property) schema {
	closed := false
	if fields == nil {
		fields = properties{}
	}
	return schema{Type: "object", Properties: fields, Required: required, AdditionalProperties: &closed}
}

// gives is the schema of an output, of which every field is always there.
func gives(fields ...property) schema {
	return schema{Type: "object", Properties: fields, Required: properties(fields).names()}
}

func field(name string, s schema, description string) property {
	s.Description = description
	return property{name: name, schema: s}
}

func words() schema                 { return schema{Type: "string"} }
func upTo(length int) schema        { return schema{Type: "string", MaxLength: length} }
func oneOf(values ...string) schema { return schema{Type: "string", Enum: values} }
func identifier() schema            { return schema{Type: "string", Format: "uuid"} }
func yesNo() schema                 { return schema{Type: "boolean"} }
func always(value any) schema       { return schema{Type: "boolean", Const: value} }
func number(from, to int) schema    { return schema{Type: "integer", Minimum: &from, Maximum: &to} }
func numberFrom(from int) schema    { return schema{Type: "integer", Minimum: &from} }
func listOf(items schema) schema    { return schema{Type: "array", Items: &items} }
func orElse(s schema, v any) schema { s.Default = v; return s }
