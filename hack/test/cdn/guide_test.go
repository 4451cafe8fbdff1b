package cdn

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"mediastack.dev/hack/testenv"
)

var codeBlock = regexp.MustCompile("(?s)```vcl\n(.*?)```\n")

// What the guide shows of Varnish is a part of the configuration that the other tests use.
func TestGuide_ShowsPartsOfTheConfiguration(t *testing.T) {
	t.Parallel()
	docs := filepath.Join(testenv.RepoRoot(t), "docs")
	guide, err := os.ReadFile(filepath.Join(docs, "guides/put-a-cdn-in-front.md"))
	must(t, err)
	vcl, err := os.ReadFile(filepath.Join(docs, "examples/cdn/varnish.vcl"))
	must(t, err)
	_, section, _ := strings.Cut(string(guide), "\n## Varnish\n")
	section, _, _ = strings.Cut(section, "\n## ")
	blocks := codeBlock.FindAllStringSubmatch(section, -1)
	if len(blocks) != 2 {
		t.Fatalf("the section shows %d parts", len(blocks))
	}
	for _, block := range blocks {
		if !strings.Contains(string(vcl), block[1]) {
			t.Errorf("varnish.vcl does not have what the guide shows:\n%s", block[1])
		}
	}
}
