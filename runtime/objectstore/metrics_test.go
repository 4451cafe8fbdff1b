package objectstore_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"mediastack.dev/hack/testenv"
)

func TestMetrics_CountRequestsByOperationAndOutcome(t *testing.T) {
	t.Parallel()
	access := testenv.S3(t)
	var answer atomic.Pointer[http.HandlerFunc]
	store := between(t, access, func(w http.ResponseWriter, r *http.Request) bool {
		handler := answer.Load()
		if handler != nil {
			(*handler)(w, r)
		}
		return handler != nil
	})
	registry := prometheus.NewPedanticRegistry()
	must(t, store.Register(registry))
	counts := func() map[string]float64 {
		families, err := registry.Gather()
		must(t, err)
		found := map[string]float64{}
		for _, family := range families {
			for _, one := range family.GetMetric() {
				var labels []string
				for _, label := range one.GetLabel() {
					labels = append(labels, label.GetValue())
				}
				found[strings.TrimPrefix(family.GetName(), "mediastack_object_store_")+" "+strings.Join(labels, " ")] = one.GetCounter().GetValue() + float64(one.GetHistogram().GetSampleCount())
			}
		}
		return found
	}
	bucket, _ := claimed(t, store)
	before := counts()
	data := bytes.Repeat([]byte("x"), 100_000)
	put(t, store, bucket, "media/x", "text/plain", data)
	body, err := store.Open(t.Context(), bucket, "media/x", 0, 70_000)
	must(t, err)
	_, err = io.Copy(io.Discard, body)
	must(t, err)
	must(t, body.Close())
	_, _ = store.Stat(t.Context(), bucket, "media/absent")
	failing := func(handler http.HandlerFunc) {
		answer.Store(&handler)
		_, _ = store.Stat(t.Context(), bucket, "media/x")
		answer.Store(nil)
	}
	failing(func(w http.ResponseWriter, _ *http.Request) {
		s3Error(w, http.StatusInternalServerError, "InternalError")
	})
	failing(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	ctx, cancel := context.WithCancel(t.Context())
	handler := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { cancel(); <-r.Context().Done() })
	answer.Store(&handler)
	_, _ = store.Stat(ctx, bucket, "media/x")
	answer.Store(nil)
	after := counts()
	for name, want := range map[string]float64{
		"requests_total PutObject ok": 1, "requests_total GetObject ok": 1, "requests_total HeadObject rejected": 1,
		"requests_total HeadObject failed": 3, "requests_total HeadObject lost": 3, // with two retries each
		"requests_total HeadObject canceled": 1, "request_duration_seconds HeadObject": 8,
	} {
		if got := after[name] - before[name]; got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	if in, out := after["body_bytes_total in"]-before["body_bytes_total in"], after["body_bytes_total out"]-before["body_bytes_total out"]; in < 70_000 || in > 80_000 || out != 100_000 {
		t.Errorf("%v bytes in, %v out", in, out)
	}
}
