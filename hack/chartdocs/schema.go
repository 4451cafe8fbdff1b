package main

import (
	"bytes"
	"encoding/json"
	"fmt"

	"go.yaml.in/yaml/v3"
)

// describe returns a schema in which each value has the text of its comment in values.yaml. The order of the
// members stays: the schema is read as YAML, which JSON is a part of.
func describe(schema, values []byte) ([]byte, error) {
	var root, commented yaml.Node
	if err := yaml.Unmarshal(schema, &root); err != nil {
		return nil, err
	}
	if err := yaml.Unmarshal(values, &commented); err != nil {
		return nil, err
	}
	if len(root.Content) != 1 || len(commented.Content) != 1 {
		return nil, fmt.Errorf("the schema and the values must be one document each")
	}
	if err := describeMembers("", root.Content[0], commented.Content[0]); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := writeJSON(&out, root.Content[0], ""); err != nil {
		return nil, err
	}
	out.WriteByte('\n')
	return out.Bytes(), nil
}

// describeMembers describes the values of a mapping in the properties of its schema.
func describeMembers(prefix string, schema, values *yaml.Node) error {
	properties := find(schema, "properties")
	for i := 0; i+1 < len(values.Content); i += 2 {
		key, value := values.Content[i], values.Content[i+1]
		property := find(properties, key.Value)
		if property == nil {
			return fmt.Errorf("there is no property %s%s", prefix, key.Value)
		}
		text, documented := description(key.HeadComment)
		switch {
		case documented:
			set(property, "description", text)
		case value.Kind == yaml.MappingNode:
			if err := describeMembers(prefix+key.Value+".", property, value); err != nil {
				return err
			}
		}
	}
	return nil
}

// find returns the member of a mapping, nil if there is none.
func find(mapping *yaml.Node, name string) *yaml.Node {
	if mapping == nil {
		return nil
	}
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == name {
			return mapping.Content[i+1]
		}
	}
	return nil
}

// set sets a member of a mapping to a text.
func set(mapping *yaml.Node, name, text string) {
	value := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: text}
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == name {
			mapping.Content[i+1] = value
			return
		}
	}
	mapping.Content = append(mapping.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: name}, value)
}

// writeJSON writes a node in the form of json.MarshalIndent with two spaces, and with the members in their order.
func writeJSON(out *bytes.Buffer, node *yaml.Node, indent string) error {
	open, closing := "{", "}"
	step := 2
	switch node.Kind {
	case yaml.MappingNode:
	case yaml.SequenceNode:
		open, closing, step = "[", "]", 1
	default:
		var value any
		if err := node.Decode(&value); err != nil {
			return err
		}
		encoder := json.NewEncoder(out)
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(value); err != nil {
			return err
		}
		out.Truncate(out.Len() - 1) // the line break of the encoder
		return nil
	}
	out.WriteString(open)
	for i := 0; i < len(node.Content); i += step {
		if i > 0 {
			out.WriteByte(',')
		}
		out.WriteString("\n" + indent + "  ")
		if step == 2 {
			if err := writeJSON(out, node.Content[i], ""); err != nil {
				return err
			}
			out.WriteString(": ")
		}
		if err := writeJSON(out, node.Content[i+step-1], indent+"  "); err != nil {
			return err
		}
	}
	if len(node.Content) > 0 {
		out.WriteString("\n" + indent)
	}
	out.WriteString(closing)
	return nil
}
