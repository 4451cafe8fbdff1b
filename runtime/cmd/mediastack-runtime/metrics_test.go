package main

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/metricsdoc"
	testwait "mediastack.dev/hack/testenv/wait"
)

// metrics returns what the admin server exports, by name.
func (s *service) metrics(t *testing.T) map[string]*dto.MetricFamily {
	t.Helper()
	families, err := metricsdoc.Exported(t.Context(), "http://"+s.admin+"/metrics")
	must(t, err)
	return families
}

// metricValue returns the sum of the series that have these labels, given as name and value in turns.
func metricValue(families map[string]*dto.MetricFamily, name string, labels ...string) (sum float64) {
	for _, one := range families[name].GetMetric() {
		matching := 0
		for _, label := range one.GetLabel() {
			for i := 0; i < len(labels); i += 2 {
				if label.GetName() == labels[i] && label.GetValue() == labels[i+1] {
					matching++
				}
			}
		}
		if matching == len(labels)/2 {
			sum += one.GetCounter().GetValue() + one.GetGauge().GetValue() + float64(one.GetHistogram().GetSampleCount())
		}
	}
	return sum
}

func TestMetrics_AreThoseOfTheReference(t *testing.T) {
	t.Parallel()
	s := prepared(t, testenv.Postgres(t), testenv.S3(t))
	if code, _, stderr := call(t.Context(), append([]string{"purge"}, s.stores...)...); code != 0 {
		t.Fatalf("purge: %d %s", code, stderr)
	}
	s.serve(t, "--cdn-purge=surrogate", "--cdn-purge-url=http://127.0.0.1:1")
	testwait.Until(t, "the service is ready", func() bool { return s.ready(t) })
	s.upload(t)
	exported, documented := s.metrics(t), metricsdoc.Documented(t, "Runtime")
	delete(documented, certificateExpiry)                                              // TestServe_RotatesItsCertificateWithoutLosingARequest has a certificate
	delete(documented, "mediastack_admin_tls_certificate_not_after_timestamp_seconds") // TestMetrics_ByTLSAreForThoseThatMayReadThem (charts) has one
	metricsdoc.Compare(t, documented, exported)
	if len(exported) < 60 {
		t.Errorf("there are %d metrics only", len(exported))
	}
}

func TestPprof_IsServedOnlyIfConfigured(t *testing.T) {
	t.Parallel()
	profiles := func(s *service) (statuses []int) {
		for _, path := range []string{"heap", "goroutine?debug=1", "profile?seconds=1", "cmdline"} {
			response, err := http.Get("http://" + s.admin + "/debug/pprof/" + path)
			must(t, err)
			text, err := io.ReadAll(response.Body)
			must(t, err)
			must(t, response.Body.Close())
			if strings.Contains(string(text), goodSecret) || response.StatusCode == http.StatusOK && len(text) < 100 {
				t.Errorf("%s: %s", path, text)
			}
			statuses = append(statuses, response.StatusCode)
		}
		return statuses
	}
	if got := profiles(whole(t)); !slices.Equal(got, []int{404, 404, 404, 404}) {
		t.Errorf("by default: %v", got)
	}
	s := whole(t, "--pprof")
	if got := profiles(s); !slices.Equal(got, []int{200, 200, 200, 404}) {
		t.Errorf("with SERVICE_PPROF: %v", got)
	}
	if got := s.request(t, http.MethodGet, "/debug/pprof/heap"); got.status != http.StatusNotFound {
		t.Errorf("on the public address: %d", got.status)
	}
}

func TestMetrics_CountWhatRequestsDid(t *testing.T) {
	t.Parallel()
	s := whole(t)
	testwait.Until(t, "the service is ready", func() bool { return s.ready(t) })
	item := s.upload(t)
	for range 2 { // the second one changes nothing
		s.send(t, http.MethodPost, "/media/seal/"+item.ID, "application/json", "")
	}
	if status, text := s.send(t, http.MethodDelete, "/media/delete/"+item.ID, "application/json", ""); status >= 300 {
		t.Fatalf("delete: %d %s", status, text)
	}
	created := s.request(t, http.MethodPost, "/media/create/resumable", "Tus-Resumable", "1.0.0", "Upload-Length", "10")
	path := strings.TrimPrefix(created.header.Get("Location"), "http://media.test")
	for _, chunk := range [][2]string{{"0", "01234"}, {"5", "56789"}} {
		if status, text := s.send(t, http.MethodPatch, path, "application/offset+octet-stream", chunk[1], "Tus-Resumable", "1.0.0", "Upload-Offset", chunk[0]); status != http.StatusNoContent {
			t.Fatalf("the chunk at %s: %d %s", chunk[0], status, text)
		}
	}
	canceled := s.request(t, http.MethodPost, "/media/create/resumable", "Tus-Resumable", "1.0.0", "Upload-Length", "10")
	s.request(t, http.MethodDelete, strings.TrimPrefix(canceled.header.Get("Location"), "http://media.test"), "Tus-Resumable", "1.0.0")
	for _, headers := range [][]string{
		{"x-service-apikey", ""}, {"x-service-apikey", "msk_guess"}, {"Authorization", "Bearer x"}, {"x-service-apikey", "", "Authorization", "Bearer x"},
		{"x-service-apikey", "", "Authorization", "Bearer " + s.tenant.Key},
	} {
		s.request(t, http.MethodGet, "/media/get", headers...)
	}
	s.request(t, http.MethodPost, "/media/create", "x-service-apikey", "", "x-service-signature", "x.y")
	found := s.metrics(t)
	for _, c := range []struct {
		want   float64
		metric string
		labels []string
	}{
		{1, "mediastack_drafts_created_total", []string{"upload", "single"}},
		{1, "mediastack_drafts_created_total", []string{"upload", "resumable"}},
		{1, "mediastack_items_sealed_total", nil},
		{1, "mediastack_items_deleted_total", nil},
		{2, "mediastack_resumable_uploads_created_total", nil},
		{1, "mediastack_resumable_uploads_resumed_total", nil},
		{1, "mediastack_resumable_uploads_canceled_total", nil},
		{10, "mediastack_resumable_upload_received_bytes_total", nil},
		{1, "mediastack_auth_failures_total", []string{"reason", "missing"}},
		{1, "mediastack_auth_failures_total", []string{"reason", "invalid_key"}},
		{1, "mediastack_auth_failures_total", []string{"reason", "several"}},
		{1, "mediastack_auth_failures_total", []string{"reason", "invalid_token"}},
		{1, "mediastack_auth_failures_total", []string{"reason", "key_as_token"}},
		{1, "mediastack_auth_failures_total", []string{"reason", "invalid_signature"}},
		{1, "mediastack_upload_batch_size", []string{"batch", "commit"}},
	} {
		if got := metricValue(found, c.metric, c.labels...); got != c.want {
			t.Errorf("%s %v: %v, want %v", c.metric, c.labels, got, c.want)
		}
	}
	for _, operation := range []string{"PutObject", "DeleteObject", "HeadBucket"} {
		if metricValue(found, "mediastack_object_store_requests_total", "operation", operation, "outcome", "ok") == 0 &&
			metricValue(found, "mediastack_object_store_requests_total", "operation", operation, "outcome", "rejected") == 0 {
			t.Errorf("no request %s to the object store is counted", operation)
		}
	}
	if other := metricValue(found, "mediastack_object_store_requests_total", "operation", "other"); other != 0 {
		t.Errorf("%v requests to the object store are of an unknown operation", other)
	}
	if got := metricValue(found, "mediastack_object_store_body_bytes_total", "direction", "out"); got < 15 {
		t.Errorf("%v bytes were sent to the object store", got)
	}
	if got := metricValue(found, "mediastack_database_connections_max"); got != 8 {
		t.Errorf("the pool may have %v connections", got)
	}
}
