// Command rendertools prints what models read of the tools: those of core, and of each other toolset what it adds to core and changes in it.
// `make generate` writes it to hack/mcptasks/tools.json, from which the table of tokens in docs/reference/mcp.md and the tasks for
// models are made.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/internal/mcp"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "rendertools:", err)
		os.Exit(1)
	}
}

func run() error {
	text, err := render()
	if err == nil {
		_, err = os.Stdout.Write(text)
	}
	return err
}

// part is a toolset as it is offered with core.
type part struct {
	Toolset, Instructions string
	// Tools are those that core does not have, or has in another form.
	Tools [][]byte
}

// offer is a policy, by the name of what it adds to core.
type offer struct {
	name   string
	policy account.ToolPolicy
}

// render returns all toolsets, and at the end all of them together, with approvals.
func render() ([]byte, error) {
	asks := account.Approval{Delete: account.RuleAlways, Publish: account.RuleAlways, Settings: account.RuleAlways}
	policies := []offer{{account.ToolsetCore, account.ToolPolicy{Toolsets: []string{account.ToolsetCore}}}}
	for _, set := range account.Toolsets() {
		if set != account.ToolsetCore {
			policies = append(policies, offer{set, account.ToolPolicy{Toolsets: []string{account.ToolsetCore, set}}})
		}
	}
	policies = append(policies, offer{account.ToolsetApproval, account.ToolPolicy{Toolsets: []string{account.ToolsetCore}, Approval: asks}},
		offer{"all", account.ToolPolicy{Toolsets: account.Toolsets(), Approval: asks}})
	core := map[string]string{}
	var parts []part
	for _, one := range policies {
		list, err := mcp.ListTools(mcp.Config{BaseURL: "https://media.example.org", DraftTTL: 24 * time.Hour}, "service", one.policy)
		if err != nil {
			return nil, err
		}
		made := part{Toolset: one.name, Instructions: list.Instructions}
		for _, tool := range list.Tools {
			text, err := json.Marshal(tool)
			if err != nil {
				return nil, err
			}
			if one.name == account.ToolsetCore {
				core[tool.Name] = string(text)
			} else if core[tool.Name] == string(text) {
				continue
			}
			made.Tools = append(made.Tools, text)
		}
		parts = append(parts, made)
	}
	return encode(parts)
}

// encode writes a tool on each line, so that the difference of two versions names the tools that differ.
func encode(parts []part) ([]byte, error) {
	var out bytes.Buffer
	for i, one := range parts {
		begin := ",\n"
		if i == 0 {
			begin = "[\n"
		}
		name, err := json.Marshal(one.Toolset)
		if err != nil {
			return nil, err
		}
		instructions, err := json.Marshal(one.Instructions)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&out, "%s{\"toolset\": %s, \"instructions\": %s, \"tools\": [\n%s\n]}", begin, name, instructions, bytes.Join(one.Tools, []byte(",\n")))
	}
	out.WriteString("\n]\n")
	return out.Bytes(), nil
}
