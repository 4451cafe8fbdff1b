package cdn

import (
	"context"
	"net"
	"net/http"
	"testing"

	"mediastack.dev/hack/exchange"
)

// Nobody but the service purges: a client would make every file be read from the service again.
func TestEdge_TakesPurgesOfTheServiceAlone(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	_, url := s.upload("a.txt", text(1000))
	tags := s.get(s.at(0, url)).Header.Get("Surrogate-Key")
	s.keep(url)
	elsewhere := &http.Client{Transport: &http.Transport{DialContext: (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}).DialContext, DisableKeepAlives: true}}
	for what, c := range map[string]struct {
		client *http.Client
		header []string
		status int
	}{
		"no key":          {s.client, []string{"Surrogate-Key", tags}, http.StatusForbidden},
		"another key":     {s.client, []string{"Surrogate-Key", tags, "Authorization", "Bearer " + purgeKey + "x"}, http.StatusForbidden},
		"another network": {elsewhere, []string{"Surrogate-Key", tags, "Authorization", "Bearer " + purgeKey}, http.StatusForbidden},
		"no tags":         {s.client, []string{"Authorization", "Bearer " + purgeKey}, http.StatusBadRequest},
	} {
		got, err := exchange.Send(context.WithoutCancel(t.Context()), c.client, "PURGE", url, nil, c.header...)
		must(t, err)
		if got.Status != c.status {
			t.Errorf("%s: %d, want %d", what, got.Status, c.status)
		}
		if got := s.get(url); got.Header.Get("Cache-Status") != hit {
			t.Errorf("%s: the file is not at the edge any more", what)
		}
	}
	got, err := exchange.Send(t.Context(), s.client, "PURGE", s.edge+"/", nil, "Surrogate-Key", tags, "Authorization", "Bearer "+purgeKey)
	must(t, err)
	if after := s.get(url); got.Status != http.StatusOK || after.Header.Get("Cache-Status") == hit {
		t.Errorf("the service's purge: %d, then %q", got.Status, after.Header.Get("Cache-Status"))
	}
}

// What the edge must not keep: files that a signature opens, errors, and everything that is no file.
func TestEdge_KeepsNothingElse(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	id, url := s.upload("a.txt", text(1000))
	s.patch(0, id, map[string]any{"access": "private"})
	signed := s.document(id).File
	for address, status := range map[string]int{signed: http.StatusOK, url: http.StatusNotFound, signed[:len(signed)-3] + "AAA": http.StatusForbidden, s.edge + "/openapi.json": http.StatusOK, s.edge + "/media/file/nothing": http.StatusNotFound} {
		for range 3 {
			if got := s.get(address); got.Status != status || got.Header.Get("Cache-Status") == hit {
				t.Errorf("%s: %d, %q, want %d", address, got.Status, got.Header.Get("Cache-Status"), status)
			}
		}
	}
	key := []string{"X-Service-Apikey", s.tenant.APIKey}
	for range 2 {
		got, err := exchange.Expect(t.Context(), s.client, http.StatusOK, http.MethodGet, s.edge+"/media/get/"+id, nil, key...)
		must(t, err)
		if got.Header.Get("Cache-Status") == hit {
			t.Error("the edge keeps a document")
		}
	}
	got, err := exchange.Send(t.Context(), s.client, http.MethodGet, s.edge+"/media/get/"+id, nil)
	must(t, err)
	if got.Status != http.StatusUnauthorized {
		t.Errorf("a document without a key is answered %d", got.Status)
	}
}
