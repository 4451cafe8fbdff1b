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
