package main

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"mediastack.dev/hack/testenv"
	testwait "mediastack.dev/hack/testenv/wait"
)

// A standby is a PostgreSQL that is read-only until it is promoted: the runtime says so, reads and files go on where it reaches the
// standby, and changes work after the promotion, in the process of before.
func TestStandby_IsNamedAndServesAfterItsPromotion(t *testing.T) {
	t.Parallel()
	primary := testenv.PostgresServer(t)
	database := testenv.Database(t, primary)
	parsed, err := url.Parse(database)
	must(t, err)
	name := strings.TrimPrefix(parsed.Path, "/")
	s3 := testenv.S3(t)
	first := prepared(t, database, s3)
	stop := first.serve(t)
	testwait.Until(t, "the service is ready", func() bool { return first.ready(t) })
	kept := first.upload(t)
	first.changes(t, "seal/"+kept.ID, http.StatusOK)
	drafts := []createdItem{first.upload(t), first.upload(t), first.upload(t), first.upload(t)}
	standby := testenv.Standby(t, primary)
	both := func(attributes string) string { // a URL with both servers, the primary first
		hosts := url.Values{"host": {primary.Server.SocketDir() + "," + standby.SocketDir()}, "target_session_attrs": {attributes}}
		parsed, err := url.Parse(standby.URL(name))
		must(t, err)
		if ports := parsed.Query().Get("port"); ports != "" {
			hosts.Set("port", ports+","+ports) // of the names of their sockets
		}
		parsed.RawQuery = hosts.Encode()
		return parsed.String()
	}
	stop()

	serve := func(database string) *service {
		s := &service{logs: new(buffer), database: database, stores: storesOf(database, s3), tenant: first.tenant}
		s.serve(t)
		return s
	}
	reads := func(t *testing.T, s *service) {
		t.Helper()
		for _, path := range []string{"/media/get/" + kept.ID, "/media/get", "/media/get/count"} {
			if status, text := s.send(t, http.MethodGet, path, "", ""); status != http.StatusOK {
				t.Errorf("%s: %d %s", path, status, text)
			}
		}
	}
	named, readWrite, either := serve(standby.URL(name)), serve(both("read-write")), serve(both("any"))
	isNotReady := func(s *service, text string) {
		t.Helper()
		testwait.UntilNone(t, func() string {
			if status, found := s.readiness(t); status != http.StatusServiceUnavailable || !strings.Contains(fmt.Sprint(found.Checks), text) {
				return fmt.Sprintf("/readyz is %d, %v, and does not say %q", status, found, text)
			}
			return ""
		})
	}
	isNotReady(named, "SERVICE_DATABASE_URL names a standby")
	reads(t, named)
	named.changes(t, "seal/"+drafts[0].ID, http.StatusServiceUnavailable)
	for i, s := range []*service{readWrite, either} { // both of them reach the primary
		testwait.Until(t, "the service is ready", func() bool { return s.ready(t) })
		reads(t, s)
		s.changes(t, "seal/"+drafts[i].ID, http.StatusOK)
	}

	primary.Kill()
	testwait.UntilNone(t, func() string {
		if status, found := either.readiness(t); status != http.StatusOK || !found.Degraded || !strings.Contains(found.Checks["changes"], "SERVICE_DATABASE_URL names a standby") {
			return fmt.Sprintf("/readyz of a service that reaches the standby is %d, %v", status, found)
		}
		return ""
	})
	reads(t, either)
	reads(t, named)
	either.changes(t, "seal/"+drafts[2].ID, http.StatusServiceUnavailable)
	named.changes(t, "seal/"+drafts[2].ID, http.StatusServiceUnavailable)
	isNotReady(readWrite, "read only connection") // of the standby, beside the primary that does not respond
	readWrite.changes(t, "seal/"+drafts[2].ID, http.StatusServiceUnavailable)

	must(t, standby.Promote(t.Context()))
	for _, s := range []*service{named, readWrite, either} {
		testwait.UntilNone(t, func() string {
			if status, found := s.readiness(t); status != http.StatusOK || found.Degraded {
				return fmt.Sprintf("after the promotion /readyz is %d, %v", status, found)
			}
			return ""
		})
		reads(t, s)
		s.changes(t, "seal/"+s.upload(t).ID, http.StatusOK)
	}
	// What was acknowledged before is there.
	for _, item := range []createdItem{kept, drafts[0], drafts[1]} {
		if status, text := named.send(t, http.MethodGet, "/media/get/"+item.ID, "", ""); status != http.StatusOK || strings.Contains(text, `"temp":true`) {
			t.Errorf("an item that was sealed before: %d %s", status, text)
		}
	}
}

// changes sends a change, which has a status and, if it is not made, the documented error.
func (s *service) changes(t *testing.T, path string, want int) {
	t.Helper()
	status, text := s.send(t, http.MethodPost, "/media/"+path, "application/json", "{}")
	if status != want || want != http.StatusOK && !strings.Contains(text, "Service Unavailable") {
		t.Errorf("%s: %d %s, not %d", path, status, text, want)
	}
}
