// Command chartdocs writes the table of values into the README of the Helm chart, and the descriptions
// into its schema, from the comments of values.yaml that begin with "--". `make generate` runs it, and
// `make verify` finds a table or a schema that is out of date.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"
)

// The table is between these lines of the README.
const (
	begin = "<!-- values: written by `make generate` -->\n"
	end   = "<!-- end of values -->\n"
)

func main() {
	if len(os.Args) != 2 {
		fail(errors.New("usage: chartdocs CHART"))
	}
	if err := update(os.Args[1]); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "chartdocs:", err)
	os.Exit(1)
}

// update writes the table of a chart's values into its README, and their descriptions into its schema.
func update(chart string) error {
	text, err := os.ReadFile(filepath.Join(chart, "values.yaml"))
	if err != nil {
		return err
	}
	rows, err := table(text)
	if err != nil {
		return fmt.Errorf("values.yaml: %w", err)
	}
	schema := filepath.Join(chart, "values.schema.json")
	current, err := os.ReadFile(schema)
	if err != nil {
		return err
	}
	described, err := describe(current, text)
	if err != nil {
		return fmt.Errorf("%s: %w", schema, err)
	}
	if err := os.WriteFile(schema, described, 0o644); err != nil {
		return err
	}
	path := filepath.Join(chart, "README.md")
	readme, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, found := strings.Cut(string(readme), begin)
	_, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		return fmt.Errorf("%s lacks the lines that surround the table", path)
	}
	return os.WriteFile(path, []byte(before+begin+rows+end+after), 0o644)
}

// table returns the table of the values.
func table(text []byte) (string, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		return "", err
	}
	if len(document.Content) != 1 || document.Content[0].Kind != yaml.MappingNode {
		return "", errors.New("it is no mapping")
	}
	var rows strings.Builder
	rows.WriteString("| value | default | meaning |\n|---|---|---|\n")
	err := addRows(&rows, "", document.Content[0])
	return rows.String(), err
}

// addRows adds a row for each documented value below a mapping.
func addRows(rows *strings.Builder, prefix string, mapping *yaml.Node) error {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		key, value := mapping.Content[i], mapping.Content[i+1]
		name := prefix + key.Value
		text, documented := description(key.HeadComment)
		switch {
		case documented:
			fallback, err := defaultOf(value)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			fmt.Fprintf(rows, "| `%s` | %s | %s |\n", name, fallback, strings.ReplaceAll(text, "|", `\|`))
		case value.Kind == yaml.MappingNode && len(value.Content) > 0:
			if err := addRows(rows, name+".", value); err != nil {
				return err
			}
		default:
			return fmt.Errorf("line %d: %s has no comment that begins with \"# -- \"", key.Line, name)
		}
	}
	return nil
}

// description returns the text of a comment after "--".
func description(comment string) (text string, found bool) {
	var lines []string
	for line := range strings.Lines(comment) {
		line = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), "#"))
		if rest, ok := strings.CutPrefix(line, "-- "); ok {
			lines, found = []string{rest}, true
		} else if found {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, " "), found
}

// defaultOf returns a default as the table shows it; nothing for an empty one.
func defaultOf(value *yaml.Node) (string, error) {
	var decoded any
	if err := value.Decode(&decoded); err != nil {
		return "", err
	}
	text, err := json.Marshal(decoded)
	if err != nil {
		return "", err
	}
	switch string(text) {
	case `""`, "{}", "[]", "null":
		return "", nil
	}
	return "`" + strings.Trim(string(text), `"`) + "`", nil
}
