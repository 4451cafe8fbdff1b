package webhooks_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"mediastack.dev/hack/testenv"
)

var codeBlock = regexp.MustCompile("(?s)```(js|go|python)\n(.*?)```\n")

// What the guide shows of a receiver is a part of it, so the tests of the receivers are tests of the guide.
func TestGuide_ShowsPartsOfTheReceivers(t *testing.T) {
	t.Parallel()
	docs := filepath.Join(testenv.RepoRoot(t), "docs")
	guide, err := os.ReadFile(filepath.Join(docs, "guides/receive-webhooks.md"))
	must(t, err)
	shown := map[string]string{}
	for _, match := range codeBlock.FindAllStringSubmatch(string(guide), -1) {
		shown[match[1]] += match[2]
	}
	for language, file := range map[string]string{"js": "receiver.mjs", "go": "receiver.go", "python": "receiver.py"} {
		program, err := os.ReadFile(filepath.Join(docs, "examples/webhooks", file))
		must(t, err)
		if shown[language] == "" || !strings.Contains(string(program), shown[language]) {
			t.Errorf("the guide shows no part of %s, but %q", file, shown[language])
		}
	}
}
