package e2e

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"mediastack.dev/hack/testenv"
)

// The blocks of a guide that this test runs, each with the block behind it that shows what it prints, if there is
// one, and the files that a guide names before their content.
var (
	guideBlock = regexp.MustCompile("(?sm)^```sh TestGuides_RunOnADevelopmentStack\n(.*?)^```$(?:\n\n^```text\n(.*?)^```$)?")
	guideFile  = regexp.MustCompile("(?sm)^`([\\w.-]+)`:\n\n```\\w+\n(.*?)^```$")
)

const tutorial = "tutorial.md"

// A user pastes the commands of these guides in their order, in one shell. The tutorial begins with the start of the
// stack, which the others use, too, and ends with its removal.
func TestGuides_RunOnADevelopmentStack(t *testing.T) {
	t.Parallel()
	clone := testenv.TempDir(t)
	if err := os.Symlink(filepath.Join(testenv.RepoRoot(t), "docs"), filepath.Join(clone, "docs")); err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(clone, ".mediastack")
	// make is what the Makefile does when everything is built, with the data in the folder of this test.
	asMake := "export MEDIASTACK_DATA='" + data + "'; make() ( cd '" + testenv.RepoRoot(t) + "'; [[ $# = 1 || $* = 'run DETACH=1' ]]; '" +
		testenv.Binary(t, "mediastack-dev") + `' "$1" ${2:+--detach} )` + "\n"
	steps := blocksOf(t, tutorial)

	stopAtEnd(t, data)
	steps[:1].pasteInto(t, clone, asMake)
	s := described(t, data)
	t.Run(tutorial, func(t *testing.T) { steps[1:len(steps)-1].pasteInto(t, clone, "") })
	for page, prints := range map[string][]string{
		"first-tenant.md":                {"condition met", `"originalFileName":"hosts"`, `"originalFileName":"hello.txt"`, "\nhello\n"},
		"manage-accounts-with-gitops.md": {"media.blog.media", `"webpOutputQuality":60`, "condition met"},
	} {
		t.Run(page, func(t *testing.T) {
			folder := testenv.TempDir(t)
			for _, file := range guideFile.FindAllStringSubmatch(guide(t, page), -1) {
				must(t, os.WriteFile(filepath.Join(folder, file[1]), []byte(file[2]), 0o600))
			}
			printed := blocksOf(t, page).pasteInto(t, folder, "export KUBECONFIG="+s.Kubeconfig+"; kubectl() { "+testenv.Kubectl(t)+` "$@"; }`+"\n")
			for _, want := range prints {
				if !strings.Contains(printed, want) {
					t.Errorf("the commands do not print %q, but: %s", want, printed)
				}
			}
		})
	}
	steps[len(steps)-1:].pasteInto(t, clone, asMake)
	if _, err := os.Stat(data); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("after the tutorial, its data: %v", err)
	}
}

// guide returns the text of a guide.
func guide(t *testing.T, page string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(testenv.RepoRoot(t), "docs/guides", page))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// step is a block of commands, and what the guide shows that it prints: nothing if the guide does not say.
type step struct{ commands, shown string }

// steps are the blocks of a guide in their order.
type steps []step

func blocksOf(t *testing.T, page string) steps {
	t.Helper()
	var found steps
	for _, block := range guideBlock.FindAllStringSubmatch(guide(t, page), -1) {
		found = append(found, step{commands: block[1], shown: block[2]})
	}
	if len(found) < 3 {
		t.Fatalf("only %d blocks of %s were found", len(found), page)
	}
	return found
}

// pasteInto runs the blocks in one shell in the folder, after the lines of before, and compares what each prints with
// what its guide shows. It returns all that they print.
func (s steps) pasteInto(t *testing.T, folder, before string) string {
	t.Helper()
	script := "set -o pipefail; " + before
	for _, one := range s {
		script += one.commands + "printf '" + blockEnd + "'\n"
	}
	printed := strings.Split(paste(t, folder, script), blockEnd)
	for i, one := range s {
		if one.shown != "" && !showing(one.shown).MatchString(printed[i]) {
			t.Errorf("the commands\n%sprint\n%s, and not as the guide shows:\n%s", one.commands, printed[i], one.shown)
		}
	}
	return strings.Join(printed, "")
}

// blockEnd is printed behind each block: a character that no program prints.
const blockEnd = "\x1e"

var (
	spaces = regexp.MustCompile(` +`)
	sizes  = regexp.MustCompile(`\d+ bytes`)
)

// showing returns the pattern of what a guide shows. Three dots are the part of a line that differs from run to run,
// and as a line of their own any lines. Columns of a table may be wider, and the pictures of another version of libvips
// may have other sizes.
func showing(text string) *regexp.Regexp {
	pattern := `\A`
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "..." {
			pattern += `(?:.*\n)*?`
			continue
		}
		line = strings.ReplaceAll(regexp.QuoteMeta(line), `\.\.\.`, `.*`)
		line = sizes.ReplaceAllLiteralString(line, `\d+ bytes`)
		pattern += ` *` + spaces.ReplaceAllLiteralString(line, ` +`) + ` *\n`
	}
	return regexp.MustCompile(pattern + `\z`)
}

func TestShowing_ComparesWhatIsStable(t *testing.T) {
	t.Parallel()
	const shown = "NAME   AGE\ndemo   ...\n...\nfile: 200, 59558 bytes\n"
	for printed, want := range map[string]bool{
		"NAME     AGE\ndemo     17s   \nfile: 200, 4 bytes\n":       true,
		"NAME   AGE\ndemo   17s\nother\n\nfile: 200, 59558 bytes\n": true,
		"NAME   AGE\nmine   17s\nfile: 200, 59558 bytes\n":          false,
		"NAME   AGE\ndemo   17s\nfile: 404, 59558 bytes\n":          false,
		"NAME   AGE\ndemo   17s\nfile: 200, 59558 bytes\nmore\n":    false,
		"NAME   AGE\ndemo   17s\n":                                  false,
	} {
		if showing(shown).MatchString(printed) != want {
			t.Errorf("%q matches: %t", printed, !want)
		}
	}
}
