// Package mcptasks has tasks in plain words for a model that has the tools of /mcp, with the calls that are expected of it
// (tasks.yaml). A maintainer runs them with a model of his own (hack/mcptasks/run), or prints the prompts and scores transcripts. The tests
// need no model: they carry the expected calls out.
package mcptasks

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

//go:embed tools.json
var toolsFile []byte

// Tool is a tool as tools/list has it.
type Tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	InputSchema json.RawMessage `json:"inputSchema"`
	// Text is the whole tool.
	Text json.RawMessage `json:"-"`
}

// Toolset is a set of tools as an account has it besides core.
type Toolset struct {
	Name         string            `json:"toolset"`
	Instructions string            `json:"instructions"`
	Changed      []json.RawMessage `json:"tools"`
	// Tools are all tools of such an account, those of core included, in the order of tools/list.
	Tools []Tool `json:"-"`
}

// Toolsets returns core, each other toolset, "approval" for accounts with spec.mcp.approval, and "all" for all of them together, from
// tools.json, which `make generate` writes.
func Toolsets() ([]Toolset, error) {
	var sets []Toolset
	if err := json.Unmarshal(toolsFile, &sets); err != nil {
		return nil, fmt.Errorf("tools.json: %w", err)
	}
	for i := range sets {
		set := &sets[i]
		for _, text := range set.Changed {
			tool := Tool{Text: text}
			if err := json.Unmarshal(text, &tool); err != nil {
				return nil, fmt.Errorf("tools.json: %s: %w", set.Name, err)
			}
			set.Tools = append(set.Tools, tool)
		}
		for _, tool := range sets[0].Tools { // core is the first
			if _, ok := Find(set.Tools, tool.Name); !ok {
				set.Tools = append(set.Tools, tool)
			}
		}
		slices.SortFunc(set.Tools, func(one, other Tool) int { return strings.Compare(one.Name, other.Name) })
	}
	return sets, nil
}

// Find returns the tool with a name.
func Find(tools []Tool, name string) (Tool, bool) {
	at := slices.IndexFunc(tools, func(tool Tool) bool { return tool.Name == name })
	if at < 0 {
		return Tool{}, false
	}
	return tools[at], true
}

// Reads reports whether a tool changes nothing, as its annotations say.
func (t Tool) Reads() bool {
	var tool struct {
		Annotations struct {
			ReadOnlyHint bool `json:"readOnlyHint"`
		} `json:"annotations"`
	}
	return json.Unmarshal(t.Text, &tool) == nil && tool.Annotations.ReadOnlyHint
}

// Reads reports whether the tool with a name changes nothing.
func Reads() (func(name string) bool, error) {
	sets, err := Toolsets()
	if err != nil {
		return nil, err
	}
	reading := map[string]bool{}
	for _, set := range sets {
		for _, tool := range set.Tools {
			reading[tool.Name] = tool.Reads()
		}
	}
	return func(name string) bool { return reading[name] }, nil
}
