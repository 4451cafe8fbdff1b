package main

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/check"
)

var must = check.NoError

// twoPrograms is the source of two small programs, by path. The tags of Go have backticks, which this text writes as '.
var twoPrograms = map[string]string{
	"runtime/cmd/mediastack-runtime/main.go": `package main
import (
	"mediastack.dev/runtime/stores"
	other "mediastack.dev/runtime/media"
)
type command struct {
	Log logging 'embed:""'
	Serve serveCommand 'cmd:""'
	Check checkCommand 'cmd:"" name:"preflight"'
	Migrate struct{} 'cmd:""'
}
type logging struct {
	Format string 'env:"SERVICE_LOG" default:"json" help:"Format: json|text."'
}
type serveCommand struct {
	Media other.Config 'embed:""'
	Stores stores.Config 'embed:"" prefix:"s3-"'
	NoSetting int 'help:"A flag."'
}
type checkCommand struct {
	Serve serveCommand 'embed:""'
	Limit int 'env:"SERVICE_LIMIT" help:"Of --deep."'
}
`,
	"runtime/stores/stores.go": `package stores
import "time"
type Config struct {
	URL string 'env:"SERVICE_URL" required:"" help:"URL, as https://a.example (at /x/y)."'
	Wait time.Duration 'env:"SERVICE_WAIT_LONG" default:"5s" help:"After SERVICE_URL."'
}
`,
	"runtime/media/media.go": `package media
type Config struct {
	Short int 'env:"SERVICE_WAIT_SHORT" default:"1" help:"Header x-<brand>-key."'
}
`,
	"controllers/cmd/mediastack-operator/main.go": `package main
import "mediastack.dev/runtime/stores"
type flags struct {
	common
	TakeOver takeOver 'cmd:""'
	Run run 'cmd:""'
}
type common struct {
	Format string 'env:"SERVICE_LOG" default:"json" help:"Format: json|text."'
}
type takeOver struct {}
type run struct { Stores stores.Config 'embed:""' }
`,
}

const page = `# Page
<!-- settings SERVICE_WAIT_* SERVICE_LOG -->
old
<!-- /settings -->
Text.
<!-- settings SERVICE_WAIT_LONG SERVICE_URL SERVICE_LIMIT -->
<!-- /settings -->
`

const filled = `# Page
<!-- settings SERVICE_WAIT_* SERVICE_LOG -->
| variable | default | read by | meaning |
|---|---|---|---|
| 'SERVICE_WAIT_SHORT' | '1' | 'serve' | Header 'x-<brand>-key' |
| 'SERVICE_LOG' | 'json' | runtime, operator | Format: json\|text |
<!-- /settings -->
Text.
<!-- settings SERVICE_WAIT_LONG SERVICE_URL SERVICE_LIMIT -->
| variable | default | read by | meaning |
|---|---|---|---|
| 'SERVICE_WAIT_LONG' | '5s' | 'serve', 'operator run' | After 'SERVICE_URL' |
| 'SERVICE_URL' | required | 'serve', 'operator run' | URL, as 'https://a.example' (at '/x/y') |
| 'SERVICE_LIMIT' | | 'preflight' | Of '--deep' |
<!-- /settings -->
`

// tree writes the small programs, and a page.
func tree(t *testing.T, source map[string]string, page string) (root string) {
	t.Helper()
	root = t.TempDir()
	files := maps.Clone(source)
	files["docs/reference/page.md"] = page
	for name, text := range files {
		path := filepath.Join(root, name)
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(t, os.WriteFile(path, []byte(strings.ReplaceAll(text, "'", "`")), 0o600))
	}
	return root
}

// write reads the settings of a tree and writes its pages.
func write(root string) error {
	found, err := read(root)
	if err != nil {
		return err
	}
	return found.tables().Write(filepath.Join(root, "docs", "reference"))
}

func TestPages_HaveTheTablesOfTheTags(t *testing.T) {
	t.Parallel()
	root := tree(t, twoPrograms, page)
	for range 2 { // the second time nothing changes
		must(t, write(root))
		got, err := os.ReadFile(filepath.Join(root, "docs/reference/page.md"))
		must(t, err)
		if want := strings.ReplaceAll(filled, "'", "`"); string(got) != want {
			t.Fatalf("the page is\n%s\ninstead of\n%s", got, want)
		}
	}
}

func TestPages_MistakesAreNamed(t *testing.T) {
	t.Parallel()
	const stores = "runtime/stores/stores.go"
	for name, test := range map[string]struct {
		file, old, new string // what is changed in a file; in the page if it has no name
		want           string
	}{
		"a setting without a table":        {"", "SERVICE_URL ", "", "has SERVICE_URL: add it to the marker"},
		"a name that is no setting":        {"", "SERVICE_URL", "SERVICE_URI", "no setting is named SERVICE_URI"},
		"a pattern that others cover":      {"", "SERVICE_WAIT_LONG", "SERVICE_WAIT_LONG SERVICE_WAIT_SHORT", "no setting is named SERVICE_WAIT_*"},
		"a name in two tables":             {"", "SERVICE_URL", "SERVICE_LOG SERVICE_URL", "two markers have the same name"},
		"a table without an end":           {"", "Text.\n", "<!-- settings SERVICE_X -->\n", "do not alternate"},
		"an end without a table":           {"", "Text.", "<!-- /settings -->", "do not alternate"},
		"two descriptions":                 {"controllers/cmd/mediastack-operator/main.go", "Format: json", "The format: json", "SERVICE_LOG has two descriptions"},
		"two defaults":                     {"controllers/cmd/mediastack-operator/main.go", `default:"json"`, `default:"text"`, "SERVICE_LOG has two descriptions"},
		"no description":                   {stores, ` help:"After SERVICE_URL."`, "", "SERVICE_WAIT_LONG has two descriptions, or none"},
		"a setting that no command has":    {stores, "type Config", "type Other struct { New int 'env:\"SERVICE_NEW\" help:\"New.\"' }\ntype Config", "SERVICE_NEW, but no command has it"},
		"a program whose type was renamed": {"runtime/cmd/mediastack-runtime/main.go", "type command struct", "type commands struct", "has no struct command"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files, text := maps.Clone(twoPrograms), page
			changed := &text
			if test.file != "" {
				content := files[test.file]
				changed = &content
			}
			*changed = strings.Replace(*changed, test.old, test.new, 1)
			if test.file != "" {
				files[test.file] = *changed
			}
			root := tree(t, files, text)
			if err := write(root); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("the error is %v, not %q", err, test.want)
			}
		})
	}
}

// The page of the repository is compared here, too, so a test finds a text that was changed without `make generate`.
func TestPages_OfTheRepositoryAreUpToDate(t *testing.T) {
	t.Parallel()
	found, err := read("../..")
	must(t, err)
	outdated, rows, err := found.tables().Outdated("../../docs/reference")
	must(t, err)
	if len(outdated) > 0 {
		t.Errorf("%q are out of date: run `make generate`", outdated)
	}
	if rows < 150 {
		t.Errorf("the tables have %d settings only", rows)
	}
}

// The readers are found in the source, by the rules of kong for tags. What the programs print for --help is what
// kong found itself.
func TestReaders_AreThoseOfTheHelpOfEachCommand(t *testing.T) {
	t.Parallel()
	found, err := read("../..")
	must(t, err)
	variable := regexp.MustCompile(`\$([A-Z0-9_]+)`)
	for _, one := range programs {
		for _, command := range found.commands[one.name] {
			args := append(strings.Fields(strings.TrimPrefix(command, "operator ")), "--help")
			help, err := exec.CommandContext(t.Context(), testenv.Binary(t, "mediastack-"+one.name), args...).Output()
			must(t, err)
			var printed, want []string
			for _, match := range variable.FindAllStringSubmatch(string(help), -1) {
				printed = append(printed, match[1])
			}
			for _, setting := range found.all {
				if slices.Contains(setting.readers, command) || command == "preflight" && slices.Contains(setting.readers, "serve") {
					want = append(want, setting.name)
				}
			}
			slices.Sort(printed)
			slices.Sort(want)
			if !slices.Equal(printed, want) {
				t.Errorf("%s --help has the settings %q, the source %q", command, printed, want)
			}
		}
	}
}
