// Package sdk_test tests SDKs of others with the shipped runtime.
package sdk_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"mediastack.dev/hack/test/clients/clienttest"
	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/hack/testenv/node"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// scriptTimeout is for all calls. Other tests may run meanwhile.
const scriptTimeout = 5 * time.Minute

var must = check.NoError

// Nine of its ten methods work. upload gives fetch an object that it does not know, and sends the text "[object FormData]":
// it fails with every service. If it works one day, docs/guides/other-clients.md must say so.
func TestMedialitSDK_DoesAllButUpload(t *testing.T) {
	t.Parallel()
	packages, s := node.New(t, "hack/test/clients/sdk"), clienttest.New(t)
	file := filepath.Join(t.TempDir(), "photo.txt")
	must(t, os.WriteFile(file, []byte("a photo"), 0o600))
	branded := s.Replica(t, "SERVICE_BRAND=medialit")
	runGuide(t, packages, branded, s.APIKey)
	options, err := json.Marshal(map[string]string{"endpoint": branded, "apiKey": s.APIKey, "file": file})
	must(t, err)
	ended := packages.Run(t, scriptTimeout, packages.Script(t, "medialit.mjs"), string(options))
	var printed struct {
		ID      string
		Methods []string
		Results map[string]struct {
			Result json.RawMessage
			Error  string
		}
	}
	if err := json.Unmarshal([]byte(ended.Stdout), &printed); err != nil || ended.Code != 0 {
		t.Fatalf("the script ended with %d and printed %s%s", ended.Code, ended.Stdout, ended.Stderr)
	}
	slices.Sort(printed.Methods)
	if tried := slices.Sorted(maps.Keys(printed.Results)); !slices.Equal(tried, printed.Methods) {
		t.Errorf("the SDK has the methods %q, and the test calls %q", printed.Methods, tried)
	}
	for method, want := range map[string]string{
		"seal": `"mediaId":"` + printed.ID + `"`, "get": `"group":"sdk"`, "list": `[{"mediaId":"` + printed.ID + `"`, "getCount": "1", "getStats": `"maxStorage":1073741824`,
		"getSettings": `"webpOutputQuality":`, "updateSettings": `"webpOutputQuality":61`, "getSignature": `"`, "delete": `"Not Found"`,
	} {
		if got := printed.Results[method]; got.Error != "" || !strings.Contains(string(got.Result), want) {
			t.Errorf("%s: %s %s, want %s", method, got.Error, got.Result, want)
		}
	}
	if got := printed.Results["upload"]; got.Error != "Bad Request" {
		t.Errorf("upload: %q %s", got.Error, got.Result)
	}
}

// runGuide runs the code of the guide: the second block uploads, the first one lists.
func runGuide(t *testing.T, packages *node.Packages, base, apiKey string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(testenv.RepoRoot(t), "docs/guides/other-clients.md"))
	must(t, err)
	blocks := regexp.MustCompile("(?s)```js\n(.*?)```").FindAllSubmatch(text, -1)
	if len(blocks) != 2 {
		t.Fatalf("the guide has %d blocks", len(blocks))
	}
	home, folder := t.TempDir(), filepath.Dir(packages.Script(t, "medialit.mjs"))
	must(t, os.WriteFile(filepath.Join(home, "photo.jpg"), []byte("a photo"), 0o600))
	for i, prints := range map[int]string{0: `^\[\]\n$`, 1: `^uploaded [0-9a-f-]{36}\n$`} {
		script := filepath.Join(folder, fmt.Sprintf("block%d.mjs", i))
		must(t, os.WriteFile(script, blocks[i][1], 0o600))
		result := packages.Start(t, scriptTimeout, home, []string{"URL=" + base, "API_KEY=" + apiKey}, script).Wait()
		if !regexp.MustCompile(prints).MatchString(result.Stdout) {
			t.Errorf("block %d printed %s%s, want %s", i+1, result.Stdout, result.Stderr, prints)
		}
	}
}
