package main

import (
	"strings"
	"testing"
)

func TestTable_HasEveryDocumentedValue(t *testing.T) {
	t.Parallel()
	got, err := table([]byte("# -- First.\nfirst: \"\"\ngroup:\n  # -- A list | of two.\n  list: [1, 2]\n# -- All of it.\nwhole:\n  inner: true\n"))
	want := "| value | default | meaning |\n|---|---|---|\n| `first` |  | First. |\n| `group.list` | `[1,2]` | A list \\| of two. |\n| `whole` | `{\"inner\":true}` | All of it. |\n"
	if err != nil || got != want {
		t.Errorf("got %s, %v", got, err)
	}
	if _, err := table([]byte("group:\n  # no description\n  value: 1\n")); err == nil || !strings.Contains(err.Error(), "group.value") {
		t.Errorf("a value without a description: %v", err)
	}
}

// values and schemas of the tests of describe.
const documented = "# -- First.\nfirst: \"\"\ngroup:\n  # -- A list.\n  list: [1, 2]\n"

func TestDescribe_WritesTheCommentsOfTheValues(t *testing.T) {
	t.Parallel()
	schema := `{
  "type": "object",
  "properties": {
    "first": {
      "description": "Of before.",
      "pattern": "^<[a-z]*>$"
    },
    "group": {
      "properties": {
        "list": {
          "items": {},
          "maxItems": 3
        }
      }
    }
  }
}
`
	want := strings.NewReplacer(`"Of before."`, `"First."`, `"maxItems": 3`, `"maxItems": 3,
          "description": "A list."`).Replace(schema)
	got, err := describe([]byte(schema), []byte(documented))
	if err != nil || string(got) != want {
		t.Errorf("got %s, %v", got, err)
	}
	again, err := describe(got, []byte(documented))
	if err != nil || string(again) != want {
		t.Errorf("a second time: %s, %v", again, err)
	}
}

func TestDescribe_AValueWithoutAPropertyIsNamed(t *testing.T) {
	t.Parallel()
	for schema, want := range map[string]string{
		`{"properties": {"group": {}}}`:              "there is no property first",
		`{"properties": {"first": {}, "group": {}}}`: "there is no property group.list",
	} {
		if _, err := describe([]byte(schema), []byte(documented)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", schema, err, want)
		}
	}
}
