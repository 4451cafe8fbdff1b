package tusclients_test

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mediastack.dev/hack/testenv"
)

// The walk-through of the reference is what people paste first.
func TestTheWalkThroughOfTheReferenceWorks(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join(testenv.RepoRoot(t), "docs", "reference", "resumable.md"))
	must(t, err)
	_, script, _ := strings.Cut(string(page), "```sh\n")
	script, _, found := strings.Cut(script, "```")
	if !found {
		t.Fatal("the page has no walk-through")
	}
	s := newService(t, "https://app.example.org")
	file := make([]byte, 3<<20)
	_, _ = rand.Read(file)
	folder := t.TempDir()
	path := filepath.Join(folder, "Ferien 🏖.bin")
	must(t, os.WriteFile(path, file, 0o600))
	out := testenv.Run(t, clientTimeout, folder, "env", "URL="+s.base, "KEY=x-service-apikey: "+s.apiKey, "FILE="+path, "bash", "-euo", "pipefail", "-c", script)
	var document struct{ OriginalFileName, Caption, File string }
	if err := json.Unmarshal([]byte(out), &document); err != nil || document.OriginalFileName != "Ferien 🏖.bin" || document.Caption != "Größe" {
		t.Fatalf("it printed %s", out)
	}
	if status, body := s.do(t, http.MethodGet, document.File, nil); status != http.StatusOK || sha256.Sum256(body) != sha256.Sum256(file) {
		t.Errorf("the file: %d, %d bytes", status, len(body))
	}
}
