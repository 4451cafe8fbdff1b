package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/check"
	testwait "mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/internal/runtimetest"
)

// as returns the service for another tenant.
func (s *service) as(tenant runtimetest.Tenant) *service {
	other := *s
	other.tenant = tenant
	return &other
}

func TestAccountMetrics_CountEachTenant(t *testing.T) {
	t.Parallel()
	database, s3 := testenv.Postgres(t), testenv.S3(t)
	s := prepared(t, database, s3)
	world := runtimetest.NewWith(t, database, s3)
	s.serve(t, "--account-metrics-top=2")
	second := s.as(world.Tenant(t, account.Spec{Name: "two", MaxStorage: 1 << 20, MaxUploadSize: 1 << 20}))
	third := s.as(world.Tenant(t, account.Spec{Name: "three", MaxStorage: 1 << 20, MaxUploadSize: 1 << 20}))
	testwait.Until(t, "the service is ready", func() bool { return s.ready(t) })
	item := s.upload(t)
	for range 3 {
		second.request(t, http.MethodGet, "/media/get")
	}
	second.request(t, http.MethodGet, "/media/get/"+uuid.NewString())
	third.request(t, http.MethodGet, "/media/get")
	// Clients without a credential: one has a signed URL, the other guesses.
	file := strings.TrimPrefix(item.File, "http://media.test")
	for path, want := range map[string]int{file: http.StatusOK, strings.Replace(file, "signature=", "signature=x", 1): http.StatusForbidden} {
		response, err := http.Get("http://" + s.address + path)
		must(t, err)
		must(t, check.ErrorOf(io.Copy(io.Discard, response.Body)))
		must(t, response.Body.Close())
		if response.StatusCode != want {
			t.Errorf("%s: %d", path, response.StatusCode)
		}
	}
	const requests, bytes = "mediastack_account_requests_total", "mediastack_account_body_bytes_total"
	testwait.Until(t, "every request is counted", func() bool { return metricValue(s.metrics(t), requests) == 7 })
	found := s.metrics(t)
	for _, c := range []struct {
		want   float64
		metric string
		labels []string
	}{
		{2, requests, []string{"account", s.tenant.Account.ID.String(), "account_namespace", "team", "account_name", "one", "class", "2xx"}},
		{3, requests, []string{"account", second.tenant.Account.ID.String(), "account_namespace", "team", "account_name", "two", "class", "2xx"}},
		{1, requests, []string{"account", second.tenant.Account.ID.String(), "class", "4xx"}},
		{1, requests, []string{"account", "other", "account_namespace", "", "account_name", "", "class", "2xx"}},
		{0, "mediastack_account_errors_total", nil},
		{float64(len(multipartFile)), bytes, []string{"account_name", "one", "direction", "in"}},
	} {
		if got := metricValue(found, c.metric, c.labels...); got != c.want {
			t.Errorf("%s %v: %v, want %v", c.metric, c.labels, got, c.want)
		}
	}
	if got := metricValue(found, bytes, "account_name", "one", "direction", "out"); got < float64(len("bytes")) {
		t.Errorf("%v bytes were sent", got)
	}
}

func TestAccountMetrics_AreAbsentIfTheyAreOff(t *testing.T) {
	t.Parallel()
	s := whole(t, "--account-metrics=off")
	testwait.Until(t, "the service is ready", func() bool { return s.ready(t) })
	s.upload(t)
	for name := range s.metrics(t) {
		if strings.HasPrefix(name, "mediastack_account_requests") {
			t.Errorf("%s is exported", name)
		}
	}
}

// What clients choose is in no label: a second client that does the same as the first, with other paths,
// methods, ids, tools and headers, makes no new series.
func TestMetrics_HostileClientsMakeNoSeries(t *testing.T) {
	t.Parallel()
	s := whole(t, "--rate-limit-ip=0", "--max-connections-per-ip=0")
	testwait.Until(t, "the service is ready", func() bool { return s.ready(t) })
	routes := s.routes(t)
	round := func(random *rand.Rand) {
		word := func() string { return fmt.Sprintf("%x", random.Uint64()) }
		send := func(method, path, body string, headers ...string) {
			conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", s.address)
			must(t, err)
			defer func() { _ = conn.Close() }()
			head := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: media.test\r\nConnection: close\r\nContent-Length: %d\r\n", method, path, len(body))
			for i := 0; i < len(headers); i += 2 {
				head += headers[i] + ": " + headers[i+1] + "\r\n"
			}
			must(t, check.ErrorOf(io.WriteString(conn, head+"\r\n"+body)))
			_, _ = io.Copy(io.Discard, conn) // the server may close the connection first
		}
		key := []string{"x-service-apikey", s.tenant.Key, "Content-Type", "application/json", "Accept", "application/json, text/event-stream"}
		for range 20 {
			send(http.MethodGet, "/"+word()+"/"+word(), "")
			send(strings.ToUpper("m"+word()), "/media/get", "")
			send(http.MethodGet, "/media/get/"+uuid.NewString(), "", key...)
			send(http.MethodGet, "/media/file/"+uuid.NewString()+"/"+word()+"/"+word(), "")
			send(http.MethodGet, "/media/get?"+word()+"="+word(), "", "x-service-apikey", "msk_"+word())
			send(http.MethodGet, "/media/get", "", "Authorization", "Bearer "+word())
			send(http.MethodPost, "/media/create", word(), "x-service-signature", word()+"."+word(), "Content-Type", word()+"/"+word())
			send(http.MethodPatch, "/media/create/resumable/"+uuid.NewString(), word(), append(key, "Tus-Resumable", word())...)
			send(http.MethodPost, "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`+word()+`","arguments":{}}}`, key...)
			send(http.MethodPost, "/mcp", `{"jsonrpc":"2.0","id":1,"method":"`+word()+`"}`, key...)
		}
		for _, to := range routes {
			send(to.method, to.path, "", "Origin", "https://"+word()+".example", "x-service-apikey", word())
		}
	}
	series := func() map[string]bool {
		found := map[string]bool{}
		for name, family := range s.metrics(t) {
			if strings.HasPrefix(name, "mediastack_object_store_") {
				continue // also of background work, which may begin at any time
			}
			for _, one := range family.GetMetric() {
				found[name+" "+fmt.Sprint(one.GetLabel())] = true
			}
		}
		return found
	}
	settled := func(before float64, sent int) {
		testwait.Until(t, "every request is counted", func() bool {
			return metricValue(s.metrics(t), "mediastack_http_requests_total") >= before+float64(sent)
		})
	}
	sent := 200 + len(routes)
	round(rand.New(rand.NewPCG(1, 1)))
	settled(0, sent)
	before, counted := series(), metricValue(s.metrics(t), "mediastack_http_requests_total")
	round(rand.New(rand.NewPCG(2, 2)))
	settled(counted, sent)
	for one := range series() {
		if !before[one] {
			t.Errorf("a new series: %s", one)
		}
	}
	if len(before) > 6000 {
		t.Errorf("there are %d series", len(before))
	}
	t.Logf("%d series after %d requests", len(before), sent)
}
