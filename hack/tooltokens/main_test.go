package main

import (
	"testing"

	"mediastack.dev/hack/mcptasks"
	"mediastack.dev/hack/testenv/check"
)

// coreTokens is how many tokens tools/list of an account without toolsets has at most. Each conversation pays for them.
const coreTokens = 3_220

func TestTable_IsThatOfTheTools(t *testing.T) {
	t.Parallel()
	made, err := tables()
	check.NoError(t, err)
	outdated, rows, err := made.Outdated("../../docs/reference")
	check.NoError(t, err)
	if len(outdated) != 0 || rows != len(made.Rows) {
		t.Errorf("make generate: %v is out of date, or has %d of %d rows", outdated, rows, len(made.Rows))
	}
	sets, err := mcptasks.Toolsets()
	check.NoError(t, err)
	found, err := countAll(sets)
	check.NoError(t, err)
	if core := found["core"]; core.tools != 10 || core.tokens > coreTokens {
		t.Errorf("core has %d tools with %d tokens, more than 10 with %d", core.tools, core.tokens, coreTokens)
	}
}

// A vocabulary that counts otherwise makes another table.
func TestCount_UsesTheVocabulary(t *testing.T) {
	t.Parallel()
	found, err := countAll([]mcptasks.Toolset{{Name: "one", Instructions: "hello world", Tools: []mcptasks.Tool{{Text: []byte(`{"name":"a","outputSchema":{"type":"object"}}`)}}}})
	check.NoError(t, err)
	if got := found["one"]; got != (counts{tools: 1, bytes: 47, tokens: 14, input: 7, instructions: 2}) {
		t.Errorf("counts: %+v", got)
	}
}
