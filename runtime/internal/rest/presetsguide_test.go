package rest_test

import (
	"bytes"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"mediastack.dev/hack/testenv"
)

// The commands of the guide image-presets.md, as they are printed there, one after the other.
func TestPresetsGuide_FromThePresetToThePicture(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join(testenv.RepoRoot(t), "docs", "guides", "image-presets.md"))
	must(t, err)
	var script strings.Builder
	for _, block := range regexp.MustCompile("(?s)```sh "+t.Name()+"\n(.*?)\n```").FindAllSubmatch(page, -1) {
		script.Write(append(block[1], '\n'))
	}
	_, one, rt := withTenant(t, withImages)
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "photo.jpg"), photo(t, 1600, 900), 0o600))
	host, port, err := net.SplitHostPort(rt.Addr())
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, ".curlrc"), []byte(`connect-to = "media.test:80:`+host+":"+port+`"`), 0o600))
	cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", script.String())
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CURL_HOME="+dir, "NO_PROXY=*", "URL="+baseURL, "API_KEY="+one.Key)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	picture, err := os.ReadFile(filepath.Join(dir, "card.avif"))
	if err != nil || http.DetectContentType(picture) == "text/plain; charset=utf-8" || !bytes.Contains(picture[:min(32, len(picture))], []byte("ftypavif")) {
		t.Errorf("the picture has %d bytes, %v", len(picture), err)
	}
	items := rt.do(t, http.MethodGet, "/media/get?fields=mediaId,focus,presets", key(one.Key))
	for _, want := range []string{`"focus":{"x":0.3,"y":0.6}`, `"width":400,"height":300`, " 1x, "} {
		if !strings.Contains(string(items.Body), want) {
			t.Errorf("%s is not in %s", want, items.Body)
		}
	}
}
