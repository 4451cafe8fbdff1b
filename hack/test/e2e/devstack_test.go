package e2e

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/wait"
)

// What the README and `make run` tell a new user to do works on a fresh stack.
func TestDevStack_FirstUseAsDocumented(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(testenv.TempDir(t), "data")
	s := start(t, dir)
	t.Run("lines of the README", func(t *testing.T) { s.in(t).pasteReadme() })
	t.Run("lines that make run prints", func(t *testing.T) { s.in(t).pastePrinted() })
	t.Run("make run beside it", func(t *testing.T) { s.in(t).namesIgnoredFlags() })
	t.Run("a page on localhost", func(t *testing.T) { s.in(t).allowsOnly("http://localhost:5173", "http://localhost.example.org") })
	t.Run("kubectl delete namespace", func(t *testing.T) { s.in(t).deleteNamespace() })

	// The sample's namespace may be terminating when the stack ends: the next start
	// completes the deletion and applies the samples again.
	s.kubectl("", "delete", "namespace", "team-a", "--wait=false")
	s.stop()
	s = start(t, dir, "SERVICE_CORS_ORIGINS=https://app.example.org")
	s.allowsOnly("https://app.example.org", "http://localhost:5173")
	if status := s.call(s.APIKey, "GET", "/media/get", "", nil, nil); status != http.StatusOK {
		t.Errorf("the new sample's key: %d", status)
	}
}

// Where no stack runs and nothing is stored, the commands say so. That is no failure.
func TestDevStack_CommandsWithoutAStack(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(testenv.TempDir(t), "data")
	for command, want := range map[string]string{"status": "No stack runs in ", "stop": "No stack runs in ", "clean": "Nothing to remove in "} {
		if printed := run(t, "", testenv.Binary(t, "mediastack-dev"), command, "--data-dir", dir); printed != want+dir+".\n" {
			t.Errorf("%s prints %q", command, printed)
		}
	}
}

// in returns the stack for use in a subtest.
func (s *stack) in(t *testing.T) *stack {
	sub := *s
	sub.t = t
	return &sub
}

// documented returns the lines that the file shows below the heading.
func (s *stack) documented(file, heading string) string {
	text, err := os.ReadFile(filepath.Join(testenv.RepoRoot(s.t), file))
	must(s.t, err)
	_, section, _ := strings.Cut(string(text), heading)
	_, section, _ = strings.Cut(section, "```sh TestDevStack_FirstUseAsDocumented\n")
	block, _, found := strings.Cut(section, "```")
	if !found {
		s.t.Fatalf("%s has no lines below %q", file, heading)
	}
	return block
}

// pasteReadme runs the README's first upload in a folder that looks like the clone, and then the lines of
// the guide that go on from there.
func (s *stack) pasteReadme() {
	clone := testenv.TempDir(s.t)
	for name, target := range map[string]string{"docs": filepath.Join(testenv.RepoRoot(s.t), "docs"), ".mediastack": s.dir} {
		must(s.t, os.Symlink(target, filepath.Join(clone, name)))
	}
	first := s.documented("README.md", "## First upload")
	answers := strings.Split(strings.TrimSpace(paste(s.t, clone, first)), "\n")
	var sealed item
	var list []item
	unmarshal(s.t, answers[0], &sealed)
	unmarshal(s.t, answers[len(answers)-1], &list)
	if len(answers) != 2 || sealed.Temp || sealed.OriginalFileName != "login.png" || len(list) != 1 || list[0].MediaID != sealed.MediaID {
		s.t.Errorf("the lines answer %q", answers)
	}

	exports := strings.Join(strings.SplitAfterN(first, "\n", 3)[:2], "")
	answers = strings.Split(strings.TrimSpace(paste(s.t, clone, exports+s.documented("docs/guides/organize-media.md", "## Describe, change, find"))), "\n")
	if len(answers) != 3 {
		s.t.Fatalf("the lines of the guide answer %q", answers)
	}
	var changed item
	var found []item
	unmarshal(s.t, answers[0], &changed)
	unmarshal(s.t, answers[1], &list)
	unmarshal(s.t, answers[2], &found) // by a word of the caption, and of the name of the file of the README
	if changed.Caption != "The login" || changed.Metadata["album"] != "2026" || changed.Metadata["reviewed"] != "yes" ||
		len(list) != 1 || list[0].MediaID != changed.MediaID || len(found) != 2 || found[0].MediaID != changed.MediaID || found[1].MediaID != sealed.MediaID {
		s.t.Errorf("the lines of the guide answer %q", answers)
	}
}

// pastePrinted runs the commands that `make status` prints, in any folder.
func (s *stack) pastePrinted() {
	printed := run(s.t, "", testenv.Binary(s.t, "mediastack-dev"), "status", "--data-dir", s.dir)
	_, section, _ := strings.Cut(printed, "Upload a picture")
	section, _, found := strings.Cut(section, "Connect an assistant")
	_, block, _ := strings.Cut(section, "\n")
	if !found {
		s.t.Fatalf("no lines for a first upload in %q", printed)
	}
	answers := strings.Split(strings.TrimSpace(paste(s.t, testenv.TempDir(s.t), block)), "\n")
	if last := answers[len(answers)-1]; !strings.HasPrefix(last, "200 image/webp, ") {
		s.t.Errorf("the lines answer %q", answers)
	}
	_, section, _ = strings.Cut(printed, "Inspect the account")
	_, block, found = strings.Cut(section, "\n")
	if !found {
		s.t.Fatalf("no lines that inspect the account in %q", printed)
	}
	if inspected := paste(s.t, testenv.TempDir(s.t), block); !strings.Contains(inspected, "demo.default.media") {
		s.t.Errorf("the lines answer %q", inspected)
	}
}

// namesIgnoredFlags starts another stack in the same folder. Its flags were ignored
// without a word.
func (s *stack) namesIgnoredFlags() {
	for flags, says := range map[string]bool{"--port=8080 --purge-every=2h": true, "--port=8080 --detach": true, "--detach": false} {
		printed := run(s.t, "", testenv.Binary(s.t, "mediastack-dev"), append([]string{"run", "--data-dir", s.dir}, strings.Fields(flags)...)...)
		if strings.Contains(printed, "Ignored: --port") != says || !strings.Contains(printed, "`make stop && make run` starts the programs") ||
			!strings.Contains(printed, s.BaseURL) {
			s.t.Errorf("%s prints %q", flags, printed)
		}
	}
}

// paste runs lines in a shell, and returns what they print.
func paste(t *testing.T, dir, lines string) string {
	t.Helper()
	return run(t, "", "env", "--chdir", dir, "bash", "-euc", lines)
}

func unmarshal(t *testing.T, text string, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), into); err != nil {
		t.Fatalf("%v in %q", err, text)
	}
}

// allowsOnly sends preflights from two origins, of which the second must be denied.
func (s *stack) allowsOnly(allowed, denied string) {
	for origin, want := range map[string]string{allowed: allowed, denied: ""} {
		request, err := http.NewRequestWithContext(s.t.Context(), http.MethodOptions, s.BaseURL+"/media/create", nil)
		must(s.t, err)
		request.Header.Set("Origin", origin)
		request.Header.Set("Access-Control-Request-Method", "POST")
		request.Header.Set("Access-Control-Request-Headers", "x-service-signature")
		response, err := http.DefaultClient.Do(request)
		must(s.t, err)
		_ = response.Body.Close()
		if got := response.Header.Get("Access-Control-Allow-Origin"); got != want {
			s.t.Errorf("a preflight from %s: Access-Control-Allow-Origin is %q, want %q", origin, got, want)
		}
	}
}

const deletable = `
apiVersion: v1
kind: Namespace
metadata: {name: team-b}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: other, namespace: team-b}
---
apiVersion: mediastack.dev/v1alpha1
kind: MediaAccount
metadata: {name: shop, namespace: team-b}
spec: {deletionPolicy: Delete}
---
apiVersion: mediastack.dev/v1alpha1
kind: MediaSettings
metadata: {name: shop, namespace: team-b}
spec: {accountRef: {name: shop}, useWebP: true}
`

// A deleted namespace once stayed in Terminating for ever: the stack had no controller
// manager.
func (s *stack) deleteNamespace() {
	s.kubectl(deletable, "apply", "-f", "-")
	s.kubectl("", "-n", "team-b", "wait", "--for=condition=Ready", "--timeout="+wait.Timeout(s.t).String(), "mediaaccount/shop", "mediasettings/shop")
	key := s.kubectl("", "-n", "team-b", "get", "secret", "shop.default.media", "-o", "go-template={{.data.apiKey | base64decode}}")
	bucket := s.kubectl("", "-n", "team-b", "get", "mediaaccount/shop", "-o", "jsonpath={.status.bucket}")
	s.upload(key, "note.txt", []byte("to be deleted"))

	s.kubectl("", "delete", "namespace", "team-b", "--timeout="+wait.Timeout(s.t).String())
	if left := s.kubectl("", "get", "namespace", "team-b", "--ignore-not-found"); left != "" {
		s.t.Errorf("the namespace is still there: %s", left)
	}
	wait.Until(s.t, "the deleted account's key is rejected", func() bool {
		return s.call(key, "GET", "/media/get", "", nil, nil) == http.StatusUnauthorized
	})
	store, err := minio.New(strings.TrimPrefix(s.S3.Endpoint, "http://"), &minio.Options{Creds: credentials.NewStaticV4(s.S3.AccessKey, s.S3.SecretKey, "")})
	must(s.t, err)
	if exists, err := store.BucketExists(s.t.Context(), bucket); err != nil || exists {
		s.t.Errorf("the deleted account's bucket exists: %t, %v", exists, err)
	}
}
