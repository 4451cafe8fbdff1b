// Command tooltokens writes the table of docs/reference/mcp.md that says how many tokens the tools of each toolset have, from
// hack/mcptasks/tools.json. `make generate` runs it.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/pkoukk/tiktoken-go"
	loader "github.com/pkoukk/tiktoken-go-loader"

	"mediastack.dev/hack/doctables"
	"mediastack.dev/hack/mcptasks"
)

func main() {
	err := errors.New("usage: tooltokens ROOT")
	if len(os.Args) == 2 {
		var t doctables.Tables
		if t, err = tables(); err == nil {
			err = t.Write(filepath.Join(os.Args[1], "docs", "reference"))
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "tooltokens:", err)
		os.Exit(1)
	}
}

// encoding is the vocabulary: that of the models of OpenAI since GPT-4o. It is the newest that is published as a file.
const encoding = "o200k_base"

// counts are the sizes of what a model reads before its first call.
type counts struct {
	tools, bytes, tokens int
	// input are the tokens without the schemas of results, which many hosts do not show to a model.
	input        int
	instructions int
}

// count counts a toolset: the list of tools as the answer to tools/list has it, and the instructions.
func count(set mcptasks.Toolset, vocabulary *tiktoken.Tiktoken) (counts, error) {
	var whole, input []json.RawMessage
	for _, tool := range set.Tools {
		var members map[string]json.RawMessage
		if err := json.Unmarshal(tool.Text, &members); err != nil {
			return counts{}, err
		}
		delete(members, "outputSchema")
		text, err := json.Marshal(members)
		if err != nil {
			return counts{}, err
		}
		whole, input = append(whole, tool.Text), append(input, text)
	}
	all, err := json.Marshal(whole)
	if err != nil {
		return counts{}, err
	}
	part, err := json.Marshal(input)
	if err != nil {
		return counts{}, err
	}
	tokens := func(text string) int { return len(vocabulary.EncodeOrdinary(text)) }
	return counts{tools: len(set.Tools), bytes: len(all), tokens: tokens(string(all)), input: tokens(string(part)), instructions: tokens(set.Instructions)}, nil
}

// countAll counts all toolsets, by their names.
func countAll(sets []mcptasks.Toolset) (map[string]counts, error) {
	tiktoken.SetBpeLoader(loader.NewOfflineLoader())
	vocabulary, err := tiktoken.GetEncoding(encoding)
	if err != nil {
		return nil, err
	}
	found := map[string]counts{}
	for _, set := range sets {
		if found[set.Name], err = count(set, vocabulary); err != nil {
			return nil, fmt.Errorf("%s: %w", set.Name, err)
		}
	}
	return found, nil
}

// tables returns the table. The rows of the toolsets beside core have what they add to it.
func tables() (doctables.Tables, error) {
	t := doctables.Tables{Word: "tokens", One: "toolset", Head: "| with | tools | bytes | tokens | without schemas of results | instructions |\n|---|--:|--:|--:|--:|--:|\n"}
	sets, err := mcptasks.Toolsets()
	if err != nil {
		return t, err
	}
	found, err := countAll(sets)
	if err != nil {
		return t, err
	}
	core := found["core"]
	for _, set := range sets {
		one, name, write := found[set.Name], "`core` and `"+set.Name+"`", signed
		switch set.Name {
		case "core":
			name, write = "`core`", grouped
		case "all":
			name, write = "all of these", grouped
		case "approval":
			name = "`core` and all of `spec.mcp.approval`"
		}
		if set.Name != "core" && set.Name != "all" {
			one = counts{one.tools - core.tools, one.bytes - core.bytes, one.tokens - core.tokens, one.input - core.input, one.instructions - core.instructions}
		}
		t.Rows = append(t.Rows, doctables.Row{Name: set.Name, Text: fmt.Sprintf("| %s | %s | %s | %s | %s | %s |", name, write(one.tools), write(one.bytes), write(one.tokens), write(one.input), write(one.instructions))})
	}
	return t, nil
}

// signed writes a difference.
func signed(n int) string {
	if n < 0 {
		return "-" + grouped(-n)
	}
	return "+" + grouped(n)
}

// grouped writes a number as the other tables of the documentation do: 12,345.
func grouped(n int) string {
	if n < 1000 {
		return strconv.Itoa(n)
	}
	return fmt.Sprintf("%s,%03d", grouped(n/1000), n%1000)
}
