package main

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/metricsdoc"
	testwait "mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/internal/runtimetest"
	"mediastack.dev/runtime/upload"
)

// fileServer serves files by HTTPS to shipped programs, which the settings allow to reach it.
type fileServer struct {
	*httptest.Server
	settings []string
}

func newFileServer(t *testing.T, handler http.HandlerFunc) fileServer {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.StartTLS()
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	authority := filepath.Join(t.TempDir(), "authority.pem")
	must(t, os.WriteFile(authority, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600))
	address, err := url.Parse(server.URL)
	must(t, err)
	return fileServer{server, []string{"SERVICE_FETCH_ENABLED=true", "SERVICE_FETCH_ALLOW_NETWORKS=127.0.0.1/32", "SERVICE_FETCH_PORTS=" + address.Port(),
		"SERVICE_FETCH_CHECK_INTERVAL=100ms", "SERVICE_FETCH_STALL_TIMEOUT=10m", "SSL_CERT_FILE=" + authority}}
}

// urlUpload is the state of an upload from a URL.
type urlUpload struct {
	JobID   string `json:"jobId"`
	State   string `json:"state"`
	Bytes   int64  `json:"bytes"`
	MediaID string `json:"mediaId"`
	Error   struct{ Code, Detail string }
}

// askJSON sends a request with the tenant's key to a process.
func (r *twoRuntimes) askJSON(t *testing.T, to *testenv.RuntimeProcess, method, path, body string, answer any) (status int) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, to.BaseURL+path, strings.NewReader(body))
	must(t, err)
	request.Header.Set("x-service-apikey", r.tenant.Key)
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	must(t, err)
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	must(t, err)
	if err := json.Unmarshal(text, answer); err != nil {
		t.Fatalf("%s %s: %d %s", method, path, response.StatusCode, text)
	}
	return response.StatusCode
}

// A job that is asked for at one process can be read at the other one. When the process that runs it is killed
// in the middle, the other one finishes it, and nothing is left of the first attempt.
func TestKilledRuntime_LeavesItsUploadsFromURLsToAnother(t *testing.T) {
	t.Parallel()
	file := runtimetest.RandomBytes(20 << 20)
	var requests atomic.Int64
	site := newFileServer(t, func(w http.ResponseWriter, q *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(len(file)))
		if requests.Add(1) > 1 {
			_, _ = w.Write(file)
			return
		}
		_, _ = w.Write(file[:12<<20]) // the first attempt stops in the middle
		_ = http.NewResponseController(w).Flush()
		<-q.Context().Done()
	})
	r := startTwo(t, 64<<20, site.settings...)
	var asked, read urlUpload
	if status := r.askJSON(t, r.first, http.MethodPost, "/media/create/url", `{"url": "`+site.URL+`/a.bin?token=secret", "seal": true}`, &asked); status != http.StatusAccepted {
		t.Fatalf("%d %+v", status, asked)
	}
	testwait.Until(t, "the other process shows that a part has arrived", func() bool {
		status := r.askJSON(t, r.second, http.MethodGet, "/media/create/url/"+asked.JobID, "", &read)
		return status == http.StatusOK && read.State == "running" && read.Bytes >= upload.PartSize &&
			r.QueryInt(t, `SELECT coalesce(sum(reserved), 0)::bigint FROM upload`) >= upload.PartSize
	})
	killed, other := r.holder(t, "mediastack_fetch_in_flight")
	must(t, killed.Signal(syscall.SIGKILL))
	testwait.Until(t, "the other process has finished it", func() bool {
		r.askJSON(t, other, http.MethodGet, "/media/create/url/"+asked.JobID, "", &read)
		return read.State == "done" || read.State == "failed"
	})
	if read.State != "done" || read.Bytes != int64(len(file)) || requests.Load() != 2 {
		t.Fatalf("%+v after %d requests", read, requests.Load())
	}
	var item struct {
		Size int64  `json:"size"`
		Temp bool   `json:"temp"`
		File string `json:"file"`
	}
	if status := r.askJSON(t, other, http.MethodGet, "/media/get/"+read.MediaID, "", &item); status != http.StatusOK || item.Size != int64(len(file)) || item.Temp {
		t.Errorf("%d %+v", status, item)
	}
	r.swept(t, 1)
	r.Counts(t, int64(len(file)), "bytes are used", `SELECT bytes FROM account_usage`)
	if n := r.QueryInt(t, `SELECT count(*) FROM fetch_job WHERE attempts = 2 AND url = ''`); n != 1 {
		t.Error("the job was not attempted twice, or has kept its URL")
	}
	for _, process := range []*testenv.RuntimeProcess{killed, other} {
		log, err := os.ReadFile(process.Spec.LogFile)
		must(t, err)
		if strings.Contains(string(log), "secret") {
			t.Error("the log has a part of the URL")
		}
	}
}

// Where each attempt is killed, the job ends with a code.
func TestKilledRuntimes_EndAnUploadFromAURLAfterItsLastAttempt(t *testing.T) {
	t.Parallel()
	site := newFileServer(t, func(w http.ResponseWriter, q *http.Request) {
		_, _ = w.Write(make([]byte, 12<<20))
		_ = http.NewResponseController(w).Flush()
		<-q.Context().Done()
	})
	r := startTwo(t, 64<<20, append(site.settings, "SERVICE_FETCH_MAX_ATTEMPTS=1")...)
	var asked, read urlUpload
	r.askJSON(t, r.first, http.MethodPost, "/media/create/url", `{"url": "`+site.URL+`/a.bin"}`, &asked)
	testwait.Until(t, "the job runs", func() bool { return r.QueryInt(t, `SELECT count(*) FROM upload WHERE reserved > 0`) == 1 })
	killed, other := r.holder(t, "mediastack_fetch_in_flight")
	must(t, killed.Signal(syscall.SIGKILL))
	testwait.Until(t, "the job has ended", func() bool {
		r.askJSON(t, other, http.MethodGet, "/media/create/url/"+asked.JobID, "", &read)
		return read.State == "failed"
	})
	if read.Error.Code != "interrupted" || read.MediaID != "" {
		t.Errorf("%+v", read)
	}
	r.swept(t, 0)
	r.Counts(t, 0, "bytes are used", `SELECT bytes FROM account_usage`)
}

// holder returns the process that runs the only task, of which the gauge tells, and the other one: either may have claimed it.
func (r *twoRuntimes) holder(t *testing.T, metric string) (holder, other *testenv.RuntimeProcess) {
	t.Helper()
	for _, setting := range r.first.Spec.Env {
		if address, found := strings.CutPrefix(setting, "SERVICE_ADMIN_LISTEN="); found {
			families, err := metricsdoc.Exported(t.Context(), "http://"+address+"/metrics")
			must(t, err)
			if metricValue(families, metric) == 1 {
				return r.first, r.second
			}
		}
	}
	return r.second, r.first
}
