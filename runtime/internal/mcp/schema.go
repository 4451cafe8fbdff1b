package mcp

import (
	"bytes"
	"encoding/json"
)

// schema is a JSON Schema (2020-12), as far as the tools need one. It documents the arguments for
// models; the use cases validate.
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
	// AdditionalProperties is false where unknown properties are rejected, the schema of their values
	// where any are allowed, and nil where later versions may add some.
	AdditionalProperties any `json:"additionalProperties,omitempty"`
	// AnyOf are alternatives, besides the other members.
	AnyOf []schema `json:"anyOf,omitempty"`
	// Encoding is the encoding of bytes in a string.
	Encoding string `json:"contentEncoding,omitempty"`
}

// property is a named field of an object.
type property struct {
	name string
	schema
}

// properties keep their order, which models read.
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

// inputObject returns the schema of arguments, which rejects unknown properties.
func inputObject(required []string, fields ...property) schema {
	if fields == nil {
		fields = properties{}
	}
	return schema{Type: "object", Properties: fields, Required: required, AdditionalProperties: false}
}

// outputObject returns the schema of an output, whose properties are all required.
func outputObject(fields ...property) schema {
	return schema{Type: "object", Properties: fields, Required: properties(fields).names()}
}

// prop returns a property of an object.
func prop(name string, s schema, description string) property {
	s.Description = description
	return property{name: name, schema: s}
}

func str() schema                        { return schema{Type: "string"} }
func maxLen(length int) schema           { return schema{Type: "string", MaxLength: length} }
func enum(values ...string) schema       { return schema{Type: "string", Enum: values} }
func uuidString() schema                 { return schema{Type: "string", Format: "uuid"} }
func boolean() schema                    { return schema{Type: "boolean"} }
func constant(value any) schema          { return schema{Type: "boolean", Const: value} }
func intRange(from, to int) schema       { return schema{Type: "integer", Minimum: &from, Maximum: &to} }
func intMin(from int) schema             { return schema{Type: "integer", Minimum: &from} }
func array(items schema) schema          { return schema{Type: "array", Items: &items} }
func withDefault(s schema, v any) schema { s.Default = v; return s }
