// Package tusclients_test has real clients upload to the shipped runtime: tus-js-client in
// Node and on a page, and Uppy on a page. Each is cut off in the middle of a PATCH.
package tusclients_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"mediastack.dev/hack/servers"
	"mediastack.dev/hack/setup"
	"mediastack.dev/hack/testenv"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/objectstore"
	"mediastack.dev/runtime/postgres"
)

func TestMain(m *testing.M) { testenv.Main(m) }

const (
	// clientTimeout is for one upload, the start of a browser included.
	clientTimeout = 90 * time.Second
	fileName      = "Ferien 🏖.bin"
)

func TestRealClientsAreCutOffAndGoOn(t *testing.T) {
	t.Parallel()
	file := make([]byte, 24<<20)
	_, _ = rand.Read(file)
	folder := clientsFolder(t)
	path := filepath.Join(folder, "file.bin")
	must(t, os.WriteFile(path, file, 0o600))
	page := httptest.NewServer(pageOf(t, folder, file))
	t.Cleanup(page.Close)
	s := newService(t, page.URL)
	browser := find(t, "chromium")

	for _, story := range []struct {
		name, script string
		options      map[string]any
	}{
		{"tus-js-client in Node", "node.mjs", map[string]any{"file": path, "headers": s.key()}},
		{"tus-js-client in Node, in pieces, begun again", "node.mjs", map[string]any{"file": path, "headers": s.key(), "chunkSize": 7 << 20, "giveUpAfter": 9 << 20}},
		{"tus-js-client on a page", "browser.mjs", map[string]any{"browser": browser, "page": page.URL, "how": "withTus", "headers": s.signature(t)}},
		{"Uppy on a page", "browser.mjs", map[string]any{"browser": browser, "page": page.URL, "how": "withUppy", "chunkSize": 7 << 20, "headers": s.signature(t)}},
	} {
		for name, broken := range map[string]func(){
			"goes on at the other replica":                       s.other,
			"goes on there while the first one holds the upload": s.holdUp,
			"goes on after both were killed":                     func() { s.killBoth(t) },
		} {
			t.Run(story.name+" "+name, func(t *testing.T) {
				s.gate.lead(s.replicas[0].address)
				s.gate.cut(10<<20+12345, broken)
				got := s.upload(t, folder, story.script, story.options)
				if !s.gate.wasCut() {
					t.Error("the upload was not cut off")
				}
				if took := s.gate.took(s.replicas[1].address); s.gate.target == s.replicas[1].address && took < 1<<20 {
					t.Errorf("the other replica was sent %d bytes", took)
				}
				s.check(t, got, file)
			})
		}
	}
}

// told is what a client prints.
type told struct {
	URL      string `json:"url"`
	ID       string `json:"id"`
	Document string `json:"document"`
}

// upload runs a client to its end.
func (s *service) upload(t *testing.T, folder, script string, options map[string]any) told {
	t.Helper()
	all := map[string]any{"endpoint": s.base + "/media/create/resumable", "filename": fileName, "retryDelays": []int{0, 100, 300, 500, 1000, 2000, 3000, 5000}}
	for name, value := range options {
		all[name] = value
	}
	text, err := json.Marshal(all)
	must(t, err)
	var told told
	if out := run(t, folder, clientTimeout, "node", script, string(text)); json.Unmarshal([]byte(out), &told) != nil {
		t.Fatalf("the client printed %s", out)
	}
	return told
}

// check compares what a client was told with what is there.
func (s *service) check(t *testing.T, got told, file []byte) {
	t.Helper()
	var document struct {
		MediaID, OriginalFileName, File string
		Size                            int64
		Temp                            bool
	}
	if err := json.Unmarshal([]byte(got.Document), &document); err != nil {
		t.Fatalf("the document is %q: %v", got.Document, err)
	}
	if got.ID == "" || document.MediaID != got.ID || !strings.HasSuffix(got.URL, "/"+got.ID) || document.OriginalFileName != fileName || document.Size != int64(len(file)) || !document.Temp {
		t.Errorf("the client was told %+v", got)
	}
	status, body := s.do(t, http.MethodGet, document.File, nil)
	if status != http.StatusOK || sha256.Sum256(body) != sha256.Sum256(file) {
		t.Errorf("the file: %d, %d bytes, SHA-256 %x", status, len(body), sha256.Sum256(body))
	}
	if status, body := s.do(t, http.MethodPost, s.base+"/media/seal/"+got.ID, s.key()); status != http.StatusOK {
		t.Errorf("seal: %d %s", status, body)
	}
}

// service is two runtimes behind one address.
type service struct {
	gate     *gate
	base     string
	apiKey   string
	group    *servers.Group
	replicas []*replica
}

type replica struct {
	address string
	spec    servers.Spec
	process *servers.Process
}

func newService(t *testing.T, origin string) *service {
	t.Helper()
	database, access := testenv.Postgres(t), testenv.S3(t)
	s := &service{gate: newGate(t), group: testenv.Group(t), apiKey: provision(t, database, access)}
	s.base = "http://" + s.gate.listener.Addr().String()
	for n := range 2 {
		port, err := servers.FreePort()
		must(t, err)
		admin, err := servers.FreePort()
		must(t, err)
		one := &replica{address: fmt.Sprintf("127.0.0.1:%d", port), spec: servers.Spec{
			Name: fmt.Sprintf("runtime %d", n), Path: testenv.Binary(t, "mediastack-runtime"), Args: []string{"serve"},
			LogFile: filepath.Join(testenv.Folder(t), "runtime.log"),
			Env: []string{
				"SERVICE_SECRET=" + strings.Repeat("ab", 32), "SERVICE_BASE_URL=" + s.base, "SERVICE_CORS_ORIGINS=" + origin,
				fmt.Sprintf("SERVICE_LISTEN=127.0.0.1:%d", port), fmt.Sprintf("SERVICE_ADMIN_LISTEN=127.0.0.1:%d", admin),
				"SERVICE_DATABASE_URL=" + database, "SERVICE_S3_ENDPOINT=" + access.Endpoint, "SERVICE_S3_REGION=" + access.Region,
				"SERVICE_S3_ACCESS_KEY=" + access.AccessKey, "SERVICE_S3_SECRET_KEY=" + access.SecretKey,
			},
			Grace: 30 * time.Second, Ready: servers.Answers(fmt.Sprintf("http://127.0.0.1:%d/readyz", admin)),
		}}
		one.process, err = s.group.Start(t.Context(), one.spec)
		must(t, err)
		s.replicas = append(s.replicas, one)
	}
	s.gate.lead(s.replicas[0].address)
	return s
}

// provision does what the operator does for an account, and gives its key.
func provision(t *testing.T, database string, access servers.S3Access) string {
	t.Helper()
	cfg, log := postgres.Config{DatabaseURL: database}, slog.New(slog.DiscardHandler)
	must(t, postgres.Migrate(t.Context(), cfg, log))
	store, err := postgres.Open(t.Context(), cfg)
	must(t, err)
	defer store.Close()
	objects, err := objectstore.New(objectstore.Config{Endpoint: access.Endpoint, Region: access.Region, AccessKey: access.AccessKey, SecretKey: access.SecretKey})
	must(t, err)
	registry := account.NewRegistry(store, "clients", time.Now)
	made, err := registry.Ensure(t.Context(), account.Spec{Namespace: "clients", Name: "one", MaxStorage: 4 << 30, MaxUploadSize: 1 << 30})
	must(t, err)
	_, err = objects.Claim(t.Context(), made.Bucket, objectstore.Owner{AccountID: made.ID.String()}, false)
	must(t, err)
	must(t, registry.SetBucketOwned(t.Context(), made.ID, true))
	apps, err := registry.SetApps(t.Context(), made.ID, nil)
	must(t, err)
	token, _, err := registry.IssueKey(t.Context(), apps[0].ID, 1, 0)
	must(t, err)
	return token.Reveal()
}

func (s *service) key() map[string]string { return map[string]string{"x-service-apikey": s.apiKey} }

// signature asks for a permission to upload, as a page's server does.
func (s *service) signature(t *testing.T) map[string]string {
	t.Helper()
	var made struct{ Signature string }
	if status, body := s.do(t, http.MethodPost, s.base+"/media/signature/create", s.key()); status != http.StatusOK || json.Unmarshal(body, &made) != nil {
		t.Fatalf("signature: %d %s", status, body)
	}
	return map[string]string{"x-service-signature": made.Signature}
}

func (s *service) do(t *testing.T, method, address string, header map[string]string) (int, []byte) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, address, nil)
	must(t, err)
	for name, value := range header {
		request.Header.Set(name, value)
	}
	response, err := http.DefaultClient.Do(request)
	must(t, err)
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	must(t, err)
	return response.StatusCode, body
}

// killBoth kills both runtimes and starts them again.
func (s *service) killBoth(t *testing.T) {
	for _, one := range s.replicas {
		one.process.Kill()
	}
	for _, one := range s.replicas {
		var err error
		if one.process, err = s.group.Start(context.WithoutCancel(t.Context()), one.spec); err != nil {
			t.Error(err)
		}
	}
}

// other leads to the second replica.
func (s *service) other() { s.gate.target = s.replicas[1].address }

// holdUp does so while the first replica still waits for the rest of the request that was cut.
func (s *service) holdUp() {
	s.gate.keep = true
	s.other()
}

// pageOf serves the page, which is of another origin than the service.
func pageOf(t *testing.T, folder string, file []byte) http.Handler {
	t.Helper()
	run(t, folder, time.Minute, filepath.Join("node_modules", ".bin", "esbuild"), "page.mjs", "--bundle", "--format=iife", "--outfile=page.js", "--log-level=error")
	script, err := os.ReadFile(filepath.Join(folder, "page.js"))
	must(t, err)
	pages := http.NewServeMux()
	for path, content := range map[string][]byte{"/{$}": []byte(`<!doctype html><meta charset="utf-8"><title>upload</title><script src="/page.js"></script>`), "/page.js": script, "/file": file} {
		pages.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
			http.ServeContent(w, r, strings.NewReplacer("/{$}", "index.html", "/", "").Replace(path), time.Time{}, bytes.NewReader(content))
		})
	}
	return pages
}

// clientsFolder is a folder with the scripts and the packages that the lock file pins.
// The packages are kept between runs, as the pinned programs are.
func clientsFolder(t *testing.T) string {
	t.Helper()
	find(t, "node")
	find(t, "npm")
	lock, err := os.ReadFile("package-lock.json")
	must(t, err)
	cache, err := setup.CacheDir()
	must(t, err)
	installed := filepath.Join(cache, "tusclients", fmt.Sprintf("%x", sha256.Sum256(lock))[:16])
	if _, err := os.Stat(installed); err != nil {
		must(t, os.MkdirAll(filepath.Dir(installed), 0o755))
		fresh, err := os.MkdirTemp(filepath.Dir(installed), "new-")
		must(t, err)
		for _, name := range []string{"package.json", "package-lock.json"} {
			copyFile(t, name, filepath.Join(fresh, name))
		}
		run(t, fresh, 5*time.Minute, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
		if err := os.Rename(fresh, installed); err != nil { // another run may have been first
			must(t, os.RemoveAll(fresh))
		}
	}
	folder := t.TempDir()
	must(t, os.Symlink(filepath.Join(installed, "node_modules"), filepath.Join(folder, "node_modules")))
	scripts, err := filepath.Glob("*.mjs")
	must(t, err)
	for _, name := range scripts {
		copyFile(t, name, filepath.Join(folder, name))
	}
	return folder
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	content, err := os.ReadFile(from)
	must(t, err)
	must(t, os.WriteFile(to, content, 0o600))
}

// find returns the path of a program.
func find(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatalf("the test needs %s: run `make packages`", name)
	}
	return path
}

// run runs a program to its end and gives what it printed.
func run(t *testing.T, folder string, timeout time.Duration, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	if strings.Contains(name, "/") {
		name = filepath.Join(folder, name)
	}
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = folder
	// A browser's processes end with the program that started it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 10 * time.Second
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, args[0], err, stderr.String())
	}
	return string(out)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
