package cdn

import (
	"net/http"
	"testing"
	"time"

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

// A replica that dies while it sends a purge holds the task for as long as it may be alive. Then the other one sends it.
func TestEdge_APurgeSurvivesItsSender(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	id, url := s.upload("a.txt", text(1000))
	s.keep(url)
	s.way.Set(testenv.ProxyStall)
	s.call(0, http.MethodDelete, "/media/delete/"+id, nil)
	// Replicas were started one after the other.
	const sender = "(SELECT coalesce(sum(before.n), 0) FROM work w JOIN (SELECT id, row_number() OVER (ORDER BY started_at) AS n FROM runtime_instance) before ON before.id = w.instance_id WHERE w.kind = 'cdn_purge' AND w.claim IS NOT NULL)::bigint"
	var number int64
	wait.Until(t, "a replica sends the purge", func() bool { number = s.count("SELECT " + sender); return number > 0 })
	s.replicas[number-1].Kill()
	s.way.Set(testenv.ProxyOpen)
	// Its lease is over, and the other one is known to live for long.
	_, err := testenv.Connections(t, s.database).Exec(t.Context(), `UPDATE runtime_instance SET alive_since = now() - interval '1 hour',
		lease_ends = CASE WHEN id = (SELECT instance_id FROM work WHERE kind = 'cdn_purge' AND claim IS NOT NULL) THEN now() - interval '1s' ELSE lease_ends END`)
	must(t, err)
	s.becomes("the file whose purge was being sent", url, gone)
	s.settle()
}
