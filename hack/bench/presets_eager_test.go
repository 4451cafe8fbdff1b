package main

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
)

func TestWatchedPictures_CountFormerOnes(t *testing.T) {
	t.Parallel()
	for name, one := range map[string]struct {
		served int64 // the width after the change
		stale  int64
	}{"the new picture": {40, 0}, "the former picture": {32, 8}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var width, declared atomic.Int64
			width.Store(32)
			declared.Store(32)
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if strings.HasPrefix(r.URL.Path, "/settings") {
					fmt.Fprintf(w, `{"presets": [{"name": "eager", "width": %d}]}`, declared.Load())
					return
				}
				file, err := encodeJPEG(scene(int(width.Load()), 24, 1))
				if err != nil {
					t.Error(err)
				}
				etag := fmt.Sprintf(`"%x"`, sha256.Sum256(file))
				if r.Header.Get("If-None-Match") == etag {
					w.WriteHeader(http.StatusNotModified)
					return
				}
				w.Header().Set("ETag", etag)
				_, _ = w.Write(file)
			}))
			defer server.Close()
			e := &endpoint{baseURL: server.URL, client: server.Client()}
			w := &watchedPictures{replicas: []*endpoint{e, e}, variant: "eager", former: 32, next: 40}
			must(t, w.ask(t.Context(), []uuid.UUID{uuid.New(), uuid.New()}))
			for n := range int64(8) { // before the change
				must(t, w.call(t.Context(), n))
			}
			width.Store(one.served)
			declared.Store(40)
			must(t, w.change(t.Context()))
			for n := range int64(8) {
				must(t, w.call(t.Context(), n))
			}
			if w.asked.Load() != 8 || w.conditional.Load() != 4 || w.stale.Load() != one.stale {
				t.Errorf("%d asked, %d conditional, %d stale; not 8, 4, %d", w.asked.Load(), w.conditional.Load(), w.stale.Load(), one.stale)
			}
		})
	}
}
