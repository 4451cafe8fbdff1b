// Package docs_test holds the documentation to what is in the repository.
package docs_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"mediastack.dev/hack/testenv/check"
)

var must = check.NoError

var (
	namedTest = regexp.MustCompile("`(Test\\w+)`(?: \\(`([\\w/]+)`\\))?")
	link      = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading   = regexp.MustCompile(`(?m)^#+ (.+)$`)
	noAnchor  = regexp.MustCompile(`[^\w\- ]`)
	// Code is no link. In a link's text it may be left out.
	inlineCode = regexp.MustCompile("`[^`\n]*`")
	codeBlock  = regexp.MustCompile("(?ms)^```.*?^```$")
)

// The lengths of the longest text in a cell of a table, and of the longest paragraph or list item, in characters.
const (
	maxCell      = 200
	maxParagraph = 400
)

// pages are the README, those of the clients and everything below docs, by their path from the repository's root.
func pages(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	read := func(path string) {
		text, err := os.ReadFile(filepath.Join("..", path))
		must(t, err)
		found[path] = string(text)
	}
	for _, path := range []string{"README.md", "clients/typescript/README.md", "clients/go/README.md"} {
		read(path)
	}
	err := filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".md") {
			read(filepath.Join("docs", path))
		}
		return err
	})
	must(t, err)
	return found
}

func TestPages_NameTestsThatExist(t *testing.T) {
	t.Parallel()
	named := 0
	for path, text := range pages(t) {
		for _, match := range namedTest.FindAllStringSubmatch(text, -1) {
			named++
			name, folder := match[1], match[2]
			if folder == "" {
				continue // a name that several packages have
			}
			files, err := filepath.Glob(filepath.Join("..", folder, "*_test.go"))
			must(t, err)
			exists := false
			for _, file := range files {
				source, err := os.ReadFile(file)
				must(t, err)
				exists = exists || strings.Contains(string(source), "\nfunc "+name+"(")
			}
			if !exists {
				t.Errorf("%s: there is no %s in %s", path, name, folder)
			}
		}
	}
	if named < 10 {
		t.Errorf("only %d tests are named", named)
	}
}

// The pages for developers name files by their paths, with alternatives in braces.
func TestPages_NameFilesThatExist(t *testing.T) {
	t.Parallel()
	named := 0
	path := regexp.MustCompile("`((?:api|charts|clients|config|controllers|docs|hack|runtime)/[\\w./{},-]+)`")
	braces := regexp.MustCompile(`^(.*)\{(.*)\}(.*)$`)
	all := pages(t)
	for _, page := range []string{"docs/guides/develop.md", "docs/architecture.md"} {
		for _, found := range path.FindAllStringSubmatch(all[page], -1) {
			files := []string{found[1]}
			if parts := braces.FindStringSubmatch(found[1]); parts != nil {
				files = nil
				for alternative := range strings.SplitSeq(parts[2], ",") {
					files = append(files, parts[1]+alternative+parts[3])
				}
			}
			for _, file := range files {
				if _, err := os.Stat(filepath.Join("..", file)); err != nil {
					t.Errorf("%s: %v", page, err)
				}
				named++
			}
		}
	}
	if named < 50 {
		t.Errorf("%d files are named: the pattern finds too few", named)
	}
}

func TestPages_LinkToWhatExists(t *testing.T) {
	t.Parallel()
	all := pages(t)
	for path, text := range all {
		for _, match := range link.FindAllStringSubmatch(inlineCode.ReplaceAllString(codeBlock.ReplaceAllString(text, ""), ""), -1) {
			target, anchor, _ := strings.Cut(match[1], "#")
			if strings.Contains(target, "://") {
				continue
			}
			to := path
			if target != "" {
				to = filepath.Join(filepath.Dir(path), target)
			}
			if _, err := os.Stat(filepath.Join("..", to)); err != nil {
				t.Errorf("%s links to %s, which does not exist", path, match[1])
				continue
			}
			if anchor != "" && !hasAnchor(all[to], anchor) {
				t.Errorf("%s links to %s, which has no such heading", path, match[1])
			}
		}
	}
}

func TestIndex_LinksToEveryGuideAndReference(t *testing.T) {
	t.Parallel()
	const index = "docs/README.md"
	all := pages(t)
	for path := range all {
		to, err := filepath.Rel("docs", path)
		must(t, err)
		if folder := filepath.Dir(path); folder != "docs/decisions" && path != "README.md" && path != index && !strings.Contains(all[index], "]("+to+")") {
			t.Errorf("%s does not link to %s", index, path)
		}
	}
	if !strings.Contains(all["README.md"], "]("+index+")") {
		t.Errorf("README.md does not link to %s", index)
	}
}

// hasAnchor reports whether a page has a heading with this anchor.
func hasAnchor(page, anchor string) bool {
	for _, match := range heading.FindAllStringSubmatch(page, -1) {
		made := strings.ReplaceAll(noAnchor.ReplaceAllString(strings.ToLower(match[1]), ""), " ", "-")
		if made == anchor {
			return true
		}
	}
	return false
}

func TestDecisions_HaveTheStandardSections(t *testing.T) {
	t.Parallel()
	want := []string{"Status", "Context", "Decision", "Alternatives", "Consequences"}
	all := pages(t)
	index := all["docs/decisions/README.md"]
	decisions := 0
	for path, text := range all {
		name := filepath.Base(path)
		if filepath.Dir(path) != "docs/decisions" || name == "README.md" {
			continue
		}
		decisions++
		var got []string
		for _, match := range regexp.MustCompile(`(?m)^## (.+)$`).FindAllStringSubmatch(text, -1) {
			got = append(got, match[1])
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s has the sections %q, not %q", path, got, want)
		}
		title, _, _ := strings.Cut(strings.TrimPrefix(text, "# "), "\n")
		if !strings.Contains(index, "]("+name+") | "+title+" |") {
			t.Errorf("docs/decisions/README.md does not list %s as %q", name, title)
		}
	}
	if decisions < 10 {
		t.Errorf("there are %d decisions", decisions)
	}
}

func TestTables_HaveShortCells(t *testing.T) {
	t.Parallel()
	for path, text := range pages(t) {
		if path == "docs/specification.md" || path == "docs/reference/api.md" {
			continue // the contract is quoted as it was given; the fields are described in the types
		}
		for line := range strings.SplitSeq(codeBlock.ReplaceAllString(text, ""), "\n") {
			if !strings.HasPrefix(line, "|") {
				continue
			}
			for cell := range strings.SplitSeq(line, "|") {
				cell = link.ReplaceAllString(cell, "]") // readers do not see where links lead
				if length := utf8.RuneCountInString(strings.TrimSpace(cell)); length > maxCell {
					t.Errorf("%s: a cell has %d characters, more than %d: %s", path, length, maxCell, cell)
				}
			}
		}
	}
}

// The contract is quoted as it was given. The other pages are generated from the Go code.
var notWrittenHere = []string{"docs/specification.md", "docs/reference/api.md", "docs/reference/metrics.md"}

// longParagraphs is the number of paragraphs that are too long, by page. It can only become smaller: a page that is
// not here has none.
var longParagraphs = map[string]int{}

func TestParagraphs_AreShort(t *testing.T) {
	t.Parallel()
	all := pages(t)
	for path, text := range all {
		if slices.Contains(notWrittenHere, path) {
			continue
		}
		var long []string
		for _, one := range paragraphs(text) {
			if length := utf8.RuneCountInString(one.text); length > maxParagraph {
				long = append(long, fmt.Sprintf("%s:%d: %d characters, more than %d", path, one.line, length, maxParagraph))
			}
		}
		switch listed := longParagraphs[path]; {
		case len(long) > listed:
			t.Errorf("%d long paragraphs, %d are listed in longParagraphs:\n%s", len(long), listed, strings.Join(long, "\n"))
		case len(long) < listed:
			t.Errorf("%s has %d long paragraphs: write this number into longParagraphs instead of %d", path, len(long), listed)
		}
	}
	for path := range longParagraphs {
		if _, exists := all[path]; !exists {
			t.Errorf("longParagraphs has %s, which does not exist", path)
		}
	}
}

// paragraph is a paragraph, a list item or a cell of a table, as readers see it, with the number of its first line.
type paragraph struct {
	line int
	text string
}

// listItem begins an item of a list.
var listItem = regexp.MustCompile(`^\s*(?:[-*+]|\d+\.)\s+`)

// paragraphs returns the paragraphs, list items and cells of a page. Code, headings and HTML are none.
func paragraphs(page string) []paragraph {
	var found []paragraph
	inCode, open := false, false // open: the next line continues the last paragraph
	for i, line := range strings.Split(page, "\n") {
		trimmed := strings.TrimSpace(line)
		fence := strings.HasPrefix(trimmed, "```")
		switch {
		case fence:
			inCode, open = !inCode, false
		case inCode:
		case trimmed == "" || strings.HasPrefix(trimmed, "#") || strings.HasPrefix(trimmed, "<"):
			open = false
		case strings.HasPrefix(trimmed, "|"):
			for cell := range strings.SplitSeq(link.ReplaceAllString(trimmed, "]"), "|") {
				if cell = strings.TrimSpace(cell); cell != "" {
					found = append(found, paragraph{line: i + 1, text: cell})
				}
			}
			open = false
		default:
			trimmed = link.ReplaceAllString(trimmed, "]") // readers do not see where links lead
			item := listItem.FindString(line)
			if item == "" && open {
				found[len(found)-1].text += " " + trimmed
				continue
			}
			found = append(found, paragraph{line: i + 1, text: strings.TrimPrefix(trimmed, strings.TrimSpace(item)+" ")})
			open = true
		}
	}
	return found
}

func TestParagraphs_AreFoundWithTheirLines(t *testing.T) {
	t.Parallel()
	page := strings.Join([]string{
		"# Title", "", "One line,", "and [its](end.md#here).", "- an item", "  that goes on", "- another one", "1. a number",
		"| a | cell |", "```", "code", "```", "after code", "<img>", "", "last",
	}, "\n")
	want := []paragraph{
		{3, "One line, and [its]."}, {5, "an item that goes on"}, {7, "another one"}, {8, "a number"},
		{9, "a"}, {9, "cell"}, {13, "after code"}, {16, "last"},
	}
	if got := paragraphs(page); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// variable is a setting: as the code declares it, or as a page documents it.
type variable struct {
	name, value string // value is its default
}

var (
	declared   = regexp.MustCompile("`[^`]*env:\"([A-Z_0-9]+)\"[^`]*`")
	byDefault  = regexp.MustCompile(`default:"([^"]*)"`)
	documented = regexp.MustCompile("(?m)^\\| `([A-Z_0-9]+)` \\| (?:`([^`]*)`)?[^|]*\\|")
	mentioned  = regexp.MustCompile(`\b(?:SERVICE|MEDIASTACK|BROWSER)_[A-Z0-9_]*[A-Z0-9]\b`)
	quoted     = regexp.MustCompile(`"((?:SERVICE|MEDIASTACK|BROWSER)_[A-Z0-9_]+)"`)
)

// settings are those that the programs read: the tags of their configuration. The second
// result has every name that any Go code knows, those of the tests included.
func settings(t *testing.T) (settings []variable, known map[string]bool) {
	t.Helper()
	known = map[string]bool{}
	for _, folder := range []string{"runtime", "controllers", "hack"} {
		err := filepath.WalkDir(filepath.Join("..", folder), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") {
				return err
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			for _, match := range quoted.FindAllSubmatch(text, -1) {
				known[string(match[1])] = true
			}
			if folder == "hack" || strings.HasSuffix(path, "_test.go") {
				return nil
			}
			for _, match := range declared.FindAllSubmatch(text, -1) {
				one := variable{name: string(match[1])}
				if value := byDefault.FindSubmatch(match[0]); value != nil {
					one.value = string(value[1])
				}
				settings = append(settings, one)
				known[one.name] = true
			}
			return nil
		})
		must(t, err)
	}
	return settings, known
}

func TestConfiguration_DocumentsEverySettingWithItsDefault(t *testing.T) {
	t.Parallel()
	defaults := map[string][]string{}
	for _, page := range []string{"configuration.md", "login.md", "resumable.md"} {
		for _, match := range documented.FindAllStringSubmatch(pages(t)["docs/reference/"+page], -1) {
			defaults[match[1]] = append(defaults[match[1]], match[2])
		}
	}
	all, _ := settings(t)
	if len(all) < 50 {
		t.Fatalf("only %d settings were found", len(all))
	}
	for _, one := range all {
		values, ok := defaults[one.name]
		if !ok {
			t.Errorf("%s has no row in docs/reference/configuration.md or login.md", one.name)
		}
		for _, value := range values {
			if value != one.value {
				t.Errorf("%s is documented with the default %q, but has %q", one.name, value, one.value)
			}
		}
	}
}

func TestPages_NameSettingsThatExist(t *testing.T) {
	t.Parallel()
	_, known := settings(t)
	for path, text := range pages(t) {
		for _, name := range mentioned.FindAllString(text, -1) {
			if !known[name] {
				t.Errorf("%s names %s, which nothing reads", path, name)
			}
		}
	}
}

func TestConditions_DocumentsEveryConditionAndReason(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../api/v1alpha1/conditions.go")
	must(t, err)
	page := pages(t)["docs/reference/conditions.md"]
	found := regexp.MustCompile(`(?m)^\t(?:Condition|Reason)\w+\s+= "(\w+)"$`).FindAllSubmatch(text, -1)
	if len(found) < 30 {
		t.Fatalf("only %d conditions and reasons were found", len(found))
	}
	for _, match := range found {
		if !strings.Contains(page, "\n| `"+string(match[1])+"` |") {
			t.Errorf("docs/reference/conditions.md has no row for %s", match[1])
		}
	}
}

// shellBlock is a fenced block of commands, with what stands behind the language.
var shellBlock = regexp.MustCompile("(?m)^ *```(?:sh|bash|shell|console)\\b *(.*)$")

// clusterPages have commands that need a real cluster and images. Those of the installation are run by
// hack/test/cluster and charts, with paths of their own.
var clusterPages = []string{"docs/guides/install.md"}

// A block of commands is an example, or names the test that runs it as a user pastes it.
func TestCommands_AreRunByATestOrExamples(t *testing.T) {
	t.Parallel()
	tests := testFunctions(t)
	found := 0
	for path, text := range pages(t) {
		if slices.Contains(clusterPages, path) {
			continue
		}
		for _, match := range shellBlock.FindAllStringSubmatch(text, -1) {
			found++
			file, exists := tests[match[1]]
			switch {
			case match[1] == "example":
			case !exists:
				t.Errorf("%s: a block of commands says %q, neither that it is an example nor which test runs it", path, match[0])
			case !strings.Contains(file, filepath.Base(path)):
				t.Errorf("%s: %s does not read this page", path, match[1])
			}
		}
	}
	if found < 30 {
		t.Errorf("only %d blocks of commands were found", found)
	}
}

// testFunctions returns the source of the package of each test function by its name.
func testFunctions(t *testing.T) map[string]string {
	t.Helper()
	function, packages := regexp.MustCompile(`(?m)^func (Test\w+)\(`), map[string]string{}
	names := map[string]string{} // the folder of each test
	for _, root := range []string{"charts", "config", "controllers", "hack", "runtime"} {
		err := filepath.WalkDir(filepath.Join("..", root), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			for _, match := range function.FindAllSubmatch(text, -1) {
				names[string(match[1])] = filepath.Dir(path)
			}
			packages[filepath.Dir(path)] += string(text)
			return err
		})
		must(t, err)
	}
	for name, folder := range names {
		names[name] = packages[folder]
	}
	return names
}
