// Package e2e goes through the product as its users do: the shipped binaries, a real
// API server, PostgreSQL and S3, and nothing of the inside but what the dev stack
// prints.
package e2e

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mediastack.dev/hack/exchange"
	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/hack/testenv/wait"
)

var must = check.NoError

func TestMain(m *testing.M) { testenv.Main(m) }

// stack is a running dev stack, as stack.json describes it.
type stack struct {
	t          *testing.T
	dir        string
	BaseURL    string `json:"baseURL"`
	APIKey     string `json:"apiKey"`
	Account    string `json:"account"`
	Kubeconfig string `json:"kubeconfig"`
	S3         struct {
		Endpoint  string `json:"endpoint"`
		AccessKey string `json:"accessKey"`
		SecretKey string `json:"secretKey"`
	} `json:"s3"`
}

// run runs a program and returns what it printed.
func run(t *testing.T, stdin string, name string, args ...string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), name, args...)
	command.Stdin = strings.NewReader(stdin)
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", filepath.Base(name), strings.Join(args, " "), err, out)
	}
	return string(out)
}

// start runs `make run DETACH=1` without make, in a data directory of the test's own, with
// settings such as SERVICE_X=y in its environment.
func start(t *testing.T, dir string, settings ...string) *stack {
	t.Helper()
	return startWith(t, dir, nil, settings...)
}

// startWith is start with flags.
func startWith(t *testing.T, dir string, flags []string, settings ...string) *stack {
	t.Helper()
	stopAtEnd(t, dir)
	run(t, "", "env", slices.Concat(settings, []string{testenv.Binary(t, "mediastack-dev"), "run", "--detach", "--data-dir", dir}, flags)...)
	return described(t, dir)
}

// stopAtEnd stops the stack in dir, if one runs, when the test ends.
func stopAtEnd(t *testing.T, dir string) {
	t.Helper()
	binary := testenv.Binary(t, "mediastack-dev")
	t.Cleanup(func() {
		// Not t.Context(): that has ended by now.
		if out, err := exec.Command(binary, "stop", "--data-dir", dir).CombinedOutput(); err != nil {
			t.Errorf("stop the stack: %v\n%s", err, out)
		}
	})
}

// described returns the stack that runs in dir.
func described(t *testing.T, dir string) *stack {
	t.Helper()
	path := filepath.Join(dir, "stack.json")
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("stack.json: %v, %v", info, err)
	}
	text, err := os.ReadFile(path)
	must(t, err)
	s := &stack{t: t, dir: dir}
	must(t, json.Unmarshal(text, s))
	return s
}

func (s *stack) stop() {
	s.t.Helper()
	run(s.t, "", testenv.Binary(s.t, "mediastack-dev"), "stop", "--data-dir", s.dir)
}

func (s *stack) kubectl(stdin string, args ...string) string {
	s.t.Helper()
	return run(s.t, stdin, testenv.Kubectl(s.t), append([]string{"--kubeconfig", s.Kubeconfig, "--cache-dir", filepath.Join(s.dir, "kubectl-cache")}, args...)...)
}

// item is a media document.
type item struct {
	MediaID          string            `json:"mediaId"`
	OriginalFileName string            `json:"originalFileName"`
	MimeType         string            `json:"mimeType"`
	Size             int64             `json:"size"`
	File             string            `json:"file"`
	Temp             bool              `json:"temp"`
	Caption          string            `json:"caption"`
	Metadata         map[string]string `json:"metadata"`
}

// call sends a request with a key and returns the status; into takes the answer's JSON.
func (s *stack) call(key, method, path, contentType string, body io.Reader, into any) int {
	s.t.Helper()
	got, err := exchange.Send(s.t.Context(), http.DefaultClient, method, s.BaseURL+path, body, "x-service-apikey", key, "Content-Type", contentType)
	must(s.t, err)
	if into != nil {
		if err := json.Unmarshal(got.Body, into); err != nil {
			s.t.Fatalf("%s %s: %d: %v in %q", method, path, got.Status, err, got.Body)
		}
	}
	return got.Status
}

func (s *stack) upload(key, name string, data []byte) item {
	s.t.Helper()
	form, contentType := exchange.Form(name, data)
	var draft item
	if status := s.call(key, "POST", "/media/create", contentType, bytes.NewReader(form), &draft); status != http.StatusCreated || !draft.Temp {
		s.t.Fatalf("upload: %d, %+v", status, draft)
	}
	return draft
}

func (s *stack) download(address string) []byte {
	s.t.Helper()
	got, err := exchange.Expect(s.t.Context(), http.DefaultClient, http.StatusOK, http.MethodGet, address, nil)
	must(s.t, err)
	return got.Body
}

const manifest = `
apiVersion: mediastack.dev/v1alpha1
kind: MediaAccount
metadata: {name: shop, namespace: team-a}
spec:
  displayName: The shop
  storage: {maxStorage: 1Gi}
---
apiVersion: mediastack.dev/v1alpha1
kind: MediaSettings
metadata: {name: shop, namespace: team-a}
spec:
  accountRef: {name: shop}
  webpOutputQuality: 55
`

func TestProduct_ServesFromManifestToDownload(t *testing.T) {
	dir := filepath.Join(testenv.TempDir(t), "data")
	s := start(t, dir, "SERVICE_CELL=2571")

	s.kubectl(manifest, "apply", "-f", "-")
	s.kubectl("", "-n", "team-a", "wait", "--for=condition=Ready", "--timeout="+wait.Timeout(s.t).String(), "mediaaccount/shop", "mediasettings/shop")
	secret := s.kubectl("", "-n", "team-a", "get", "mediaaccount/shop", "-o", "jsonpath={.status.keys[0].secretName}")
	key := s.kubectl("", "-n", "team-a", "get", "secret", secret, "-o", "go-template={{.data.apiKey | base64decode}}")

	data := make([]byte, 20_000_003)
	_, _ = rand.NewChaCha8([32]byte{}).Read(data)
	draft := s.upload(key, "Füße 写真.bin", data)
	if !strings.HasPrefix(key, "msk_a0b") || draft.MediaID[20:23] != "a0b" {
		t.Errorf("in cell a0b the operator made the key %s..., and the runtime the id %s", key[:7], draft.MediaID)
	}
	if got := s.download(draft.File); sha256.Sum256(got) != sha256.Sum256(data) {
		t.Error("the draft's file is not what was uploaded")
	}
	var list []item
	if s.call(key, "GET", "/media/get", "", nil, &list); len(list) != 0 {
		t.Errorf("a draft is listed: %+v", list)
	}
	var sealed item
	if status := s.call(key, "POST", "/media/seal/"+draft.MediaID, "", nil, &sealed); status != http.StatusOK || sealed.Temp {
		t.Fatalf("seal: %d, %+v", status, sealed)
	}
	if s.call(key, "GET", "/media/get", "", nil, &list); len(list) != 1 || list[0].MediaID != draft.MediaID || list[0].OriginalFileName != "Füße 写真.bin" || list[0].Size != int64(len(data)) {
		t.Fatalf("listed %+v", list)
	}
	if got := s.download(list[0].File); !bytes.Equal(got, data) {
		t.Error("the sealed file is not what was uploaded")
	}
	var count struct{ Count int64 }
	s.call(key, "GET", "/media/get/count", "", nil, &count)
	var totals struct{ Storage, MaxStorage int64 }
	s.call(key, "GET", "/media/get/size", "", nil, &totals)
	if count.Count != 1 || totals.Storage != int64(len(data)) || totals.MaxStorage != 1<<30 {
		t.Errorf("count %+v, totals %+v", count, totals)
	}
	var settings struct{ WebPOutputQuality int }
	if s.call(key, "GET", "/settings/media/get", "", nil, &settings); settings.WebPOutputQuality != 55 {
		t.Errorf("the pinned quality is %d", settings.WebPOutputQuality)
	}
	if status := s.call(s.APIKey, "GET", "/media/get/"+draft.MediaID, "", nil, nil); status != http.StatusNotFound {
		t.Errorf("another tenant's key: %d", status)
	}

	// A Secret that is deleted comes back with another key, and the old one stops.
	s.kubectl("", "-n", "team-a", "delete", "secret", secret)
	var fresh string
	wait.Until(t, "a new key works and the old one does not", func() bool {
		fresh = s.kubectl("", "-n", "team-a", "get", "secret", secret, "--ignore-not-found", "-o", "go-template={{.data.apiKey | base64decode}}")
		return fresh != "" && fresh != key && s.call(fresh, "GET", "/media/get", "", nil, nil) == http.StatusOK &&
			s.call(key, "GET", "/media/get", "", nil, nil) == http.StatusUnauthorized
	})
	s.kubectl("", "-n", "team-a", "wait", "--for=condition=Ready", "--timeout="+wait.Timeout(s.t).String(), "mediaaccount/shop")

	// Everything is there after a restart.
	s.stop()
	if left := processes(t, dir); len(left) > 0 {
		t.Errorf("processes are left after stop: %s", strings.Join(left, "; "))
	}
	s = start(t, dir, "SERVICE_CELL=2571")
	s.call(fresh, "GET", "/media/get/"+draft.MediaID, "", nil, &sealed)
	if got := s.download(sealed.File); !bytes.Equal(got, data) {
		t.Error("after a restart the file is not what was uploaded")
	}
}

// processes returns the command lines of running processes that name dir.
func processes(t *testing.T, dir string) []string {
	t.Helper()
	var found []string
	commands, err := filepath.Glob("/proc/[0-9]*/cmdline")
	must(t, err)
	for _, path := range commands {
		line, err := os.ReadFile(path)
		if err == nil && bytes.Contains(line, []byte(dir)) {
			found = append(found, fmt.Sprintf("%s %s", path, bytes.ReplaceAll(line, []byte{0}, []byte{' '})))
		}
	}
	slices.Sort(found)
	return found
}
