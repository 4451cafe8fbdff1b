package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/runtime/account"
)

var must = check.NoError

// small is an OpenAPI document with a path of each kind.
const small = `security:
  - apiKey: []
  - login: [media:read]
paths:
  /media/get:
    x-operation: list_media
    get:
      summary: List
    post:
      summary: List
  /media/delete/{mediaId}:
    x-operation: delete_media
    delete:
      security:
        - apiKey: []
        - login: [media:delete]
  /media/batch:
    post:
      security:
        - login: [media:write, media:delete]
  /openapi.json:
    get:
      security: []
`

func TestPaths_AreThoseOfTheDocument(t *testing.T) {
	t.Parallel()
	found, err := readPaths(tree(t, small))
	must(t, err)
	rows := map[string]string{}
	for _, row := range tables(found).Rows {
		rows[row.Name] = row.Text
	}
	for _, want := range []string{
		"| `list_media` | `core` | `media:read` | `/media/get` |",
		"| `delete_media` | `core` | `media:delete` | `/media/delete/{mediaId}` |",
		"| `search_media` | `find` | `media:read` | |",
	} {
		name := strings.Split(want, "`")[1]
		if rows[name] != want {
			t.Errorf("the row is %s instead of %s", rows[name], want)
		}
	}
}

// tree writes a document.
func tree(t *testing.T, text string) (root string) {
	t.Helper()
	root = t.TempDir()
	must(t, os.MkdirAll(filepath.Join(root, filepath.Dir(document)), 0o755))
	must(t, os.WriteFile(filepath.Join(root, document), []byte(text), 0o600))
	return root
}

// A message says what to change, and where.
func TestPaths_ThatContradictTheTableAreNamed(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ old, changed, want string }{
		"another scope":      {"login: [media:delete]", "login: [media:write]", document + ":16: delete /media/delete/{mediaId} requires the scopes [media:write], but " + source + " says that delete_media requires media:delete"},
		"another operation":  {"x-operation: list_media", "x-operation: seal_media", document + ":7: get /media/get requires the scopes [media:read], but"},
		"an unknown one":     {"x-operation: list_media", "x-operation: list_medias", document + ":6: " + source + " does not have the operation list_medias"},
		"a path without one": {"    x-operation: list_media\n", "", document + ":6: /media/get names no x-operation"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := readPaths(tree(t, strings.Replace(small, test.old, test.changed, 1))); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("the error is %v, not %q", err, test.want)
			}
		})
	}
}

// A test finds an operation that was added without `make generate`, too.
func TestFiles_OfTheRepositoryAreUpToDate(t *testing.T) {
	t.Parallel()
	const root = "../.."
	text, err := os.ReadFile(filepath.Join(root, names))
	must(t, err)
	if string(text) != string(namesFile()) {
		t.Errorf("%s is out of date: run `make generate`", names)
	}
	paths, err := readPaths(root)
	must(t, err)
	outdated, rows, err := tables(paths).Outdated(filepath.Join(root, "docs/reference"))
	must(t, err)
	if len(outdated) > 0 {
		t.Errorf("%q are out of date: run `make generate`", outdated)
	}
	if rows != len(account.Operations()) {
		t.Errorf("the tables have %d of %d operations", rows, len(account.Operations()))
	}
	// What a tool takes and returns is prose of its own.
	reference, err := os.ReadFile(filepath.Join(root, "docs/reference/mcp.md"))
	must(t, err)
	described, _, _ := strings.Cut(string(reference), "<!-- operations")
	for _, one := range account.Operations() {
		if !strings.Contains(described, "\n| `"+string(one)+"` | ") {
			t.Errorf("docs/reference/mcp.md does not describe the arguments and the result of %s: add a row to a table below Tools or Toolsets", one)
		}
	}
}
