package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"mediastack.dev/hack/testenv"
)

// The blocks of a guide that this test runs, and the files that a guide names before their content.
var (
	guideBlock = regexp.MustCompile("(?sm)^```sh TestGuides_RunOnADevelopmentStack\n(.*?)^```$")
	guideFile  = regexp.MustCompile("(?sm)^`([\\w.-]+)`:\n\n```\\w+\n(.*?)^```$")
)

// A user pastes the commands of these guides in their order, in one shell.
func TestGuides_RunOnADevelopmentStack(t *testing.T) {
	t.Parallel()
	s := start(t, filepath.Join(testenv.TempDir(t), "data"))
	for page, prints := range map[string][]string{
		"first-tenant.md":                {"condition met", `"originalFileName":"hello.txt"`, "\nhello\n"},
		"manage-accounts-with-gitops.md": {"media.blog.media", `"webpOutputQuality":60`, "condition met"},
	} {
		t.Run(page, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join(testenv.RepoRoot(t), "docs/guides", page))
			must(t, err)
			folder := testenv.TempDir(t)
			for _, file := range guideFile.FindAllStringSubmatch(string(text), -1) {
				must(t, os.WriteFile(filepath.Join(folder, file[1]), []byte(file[2]), 0o600))
			}
			script := "set -o pipefail; export KUBECONFIG=" + s.Kubeconfig + "; kubectl() { " + testenv.Kubectl(t) + ` "$@"; }` + "\n"
			blocks := guideBlock.FindAllStringSubmatch(string(text), -1)
			for _, block := range blocks {
				script += block[1]
			}
			printed := paste(t, folder, script)
			for _, want := range prints {
				if !strings.Contains(printed, want) {
					t.Errorf("the commands do not print %q, but: %s", want, printed)
				}
			}
			if len(blocks) < 3 {
				t.Errorf("only %d blocks were found", len(blocks))
			}
		})
	}
}
