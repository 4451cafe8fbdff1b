package exchange_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"mediastack.dev/hack/exchange"
	"mediastack.dev/hack/testenv/check"
)

func TestSend_SendsFormsAndExpectsAStatus(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		file, header, err := r.FormFile("file")
		if err != nil || r.FormValue("access") != "public" || header.Filename != "a.bin" || r.Header.Get("X-Key") != "k" || r.Header.Values("X-Empty") != nil {
			http.Error(w, "wrong form", http.StatusBadRequest)
			return
		}
		w.Header().Set("X-Answer", "yes")
		w.WriteHeader(http.StatusCreated)
		_, _ = io.Copy(w, file)
	}))
	defer server.Close()
	send := func(status int, fields ...string) (exchange.Answer, error) {
		body, contentType := exchange.Form("a.bin", []byte("bytes"), fields...)
		return exchange.Expect(t.Context(), server.Client(), status, http.MethodPost, server.URL, bytes.NewReader(body), "Content-Type", contentType, "X-Key", "k", "X-Empty", "")
	}
	got, err := send(http.StatusCreated, "access", "public")
	check.NoError(t, err)
	if got.Status != http.StatusCreated || got.Header.Get("X-Answer") != "yes" || string(got.Body) != "bytes" {
		t.Errorf("%+v", got)
	}
	if got, err := send(http.StatusCreated); err == nil || got.Status != http.StatusBadRequest || !strings.Contains(err.Error(), "is answered 400: wrong form") {
		t.Errorf("%+v, %v", got, err)
	}
}
