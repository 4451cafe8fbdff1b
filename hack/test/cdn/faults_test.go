package cdn

import (
	"net/http"
	"testing"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/wait"
)

// Purges wait for an edge that is away, whether it answers nobody or hangs, and are sent when it is back. What it has had all the time is gone
// then, and nothing of it comes back.
func TestEdge_CatchesUpAfterItWasAway(t *testing.T) {
	t.Parallel()
	for name, mode := range map[string]testenv.ProxyMode{"cut off": testenv.ProxyCut, "hanging": testenv.ProxyStall} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, "SERVICE_CDN_PURGE_TIMEOUT=1s")
			const files = 40 // more than one request has tags
			var ids, urls []string
			for range files {
				id, url := s.upload("a.txt", text(1000))
				s.keep(url)
				ids, urls = append(ids, id), append(urls, url)
			}
			s.way.Set(mode)
			began := time.Now()
			for i, id := range ids {
				if i%2 == 0 {
					s.call(i%len(s.replicas), http.MethodDelete, "/media/delete/"+id, nil)
				} else {
					s.patch(i%len(s.replicas), id, map[string]any{"access": "private"})
				}
			}
			away := sizeOf(t).away
			wait.Until(t, "the purges are tried, and fail", func() bool {
				return s.metric("mediastack_cdn_purges_total{outcome=\"failed\"}") > 0 && time.Since(began) >= away
			})
			for _, url := range urls { // the edge cannot know
				if got := s.get(url); got.Header.Get("Cache-Status") != hit {
					t.Fatalf("%s is answered %d, %q, although no purge has reached the edge", url, got.Status, got.Header.Get("Cache-Status"))
				}
			}
			if n := s.count("SELECT count(*) FROM cdn_purge WHERE sent_at IS NULL"); n != files {
				t.Errorf("%d purges wait, want %d", n, files)
			}
			s.way.Set(testenv.ProxyOpen)
			back := time.Now()
			for _, url := range urls {
				s.becomes("a file that is gone since the edge was away", url, gone)
			}
			t.Logf("the edge was away for %s; %d files were gone %s after it was back", back.Sub(began).Round(time.Second), files, time.Since(back).Round(time.Millisecond))
			s.settle()
		})
	}
}

// A replica that dies right after it has acknowledged a delete leaves the purge to the other one.
func TestEdge_TheOtherReplicaPurges(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for victim := range s.replicas {
		id, url := s.upload("a.txt", text(1000))
		s.tagged(url)
		s.keep(url)
		s.call(victim, http.MethodDelete, "/media/delete/"+id, nil)
		s.replicas[victim].Kill()
		s.becomes("the file that a replica has deleted at last", url, gone)
		must(t, s.replicas[victim].Restart(t.Context()))
	}
	s.settle()
}

// A replica that dies while it sends a purge holds the task until its lease ends. Then another one sends it.
func TestEdge_APurgeSurvivesItsSender(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	database := testenv.Connections(t, s.database)
	id, url := s.upload("a.txt", text(1000))
	s.keep(url)
	s.way.Set(testenv.ProxyStall)
	s.call(0, http.MethodDelete, "/media/delete/"+id, nil)
	wait.Until(t, "a replica sends the purge", func() bool {
		return s.count("SELECT count(*) FROM work WHERE kind = 'cdn_purge' AND claim IS NOT NULL AND instance_id IS NOT NULL") == 1
	})
	for _, replica := range s.replicas { // one of them is the sender
		replica.Kill()
	}
	s.way.Set(testenv.ProxyCut) // what it has sent does not arrive
	s.way.Set(testenv.ProxyOpen)
	var dead []uuid.UUID
	must(t, database.QueryRow(t.Context(), "SELECT array_agg(id) FROM runtime_instance").Scan(&dead))
	must(t, s.replicas[0].Restart(t.Context()))
	wait.Until(t, "the lease of the sender is over, and another replica is known to live for long", func() bool {
		_, err := database.Exec(t.Context(), "UPDATE runtime_instance SET lease_ends = now() - interval '1s' WHERE id = ANY ($1)", dead)
		must(t, err)
		living, err := database.Exec(t.Context(), "UPDATE runtime_instance SET alive_since = now() - interval '1 hour' WHERE id <> ALL ($1)", dead)
		must(t, err)
		return living.RowsAffected() == 1
	})
	s.becomes("the file whose purge was being sent", url, gone)
	s.settle()
}
