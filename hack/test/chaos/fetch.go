package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"mediastack.dev/hack/test/chaos/faults"
)

// fetches are uploads from a URL: asked for at either runtime, read at any, and interrupted by every kill. A client
// does not wait for them: while runtimes are killed all the time, nobody takes over what the dead have left.
var fetches = []operation{
	{"upload from a URL", 8, func(ctx context.Context, c *client) { c.fetch(ctx, wholeFile, c.draw.Int64N(200_000)) }},
	{"upload from a slow URL", 6, func(ctx context.Context, c *client) { c.fetch(ctx, slowFile, 5<<20+c.draw.Int64N(10<<20)) }},
	{"upload from a URL in parts", 2, func(ctx context.Context, c *client) { c.fetch(ctx, wholeFile, 9<<20+c.draw.Int64N(20<<20)) }},
	{"upload an image from a URL", 3, func(ctx context.Context, c *client) { c.fetch(ctx, imageFile, 0) }},
	{"upload from a URL that is cut", 2, func(ctx context.Context, c *client) { c.fetch(ctx, cutFile, 1+c.draw.Int64N(10<<20)) }},
	{"upload from a URL that stalls", 1, func(ctx context.Context, c *client) { c.fetch(ctx, stuckFile, 1+c.draw.Int64N(10<<20)) }},
	{"upload from a URL that is missing", 1, func(ctx context.Context, c *client) { c.fetch(ctx, noFile, 1) }},
	{"read uploads from a URL", 30, func(ctx context.Context, c *client) { c.pollFetches(ctx) }},
}

// job is an upload from a URL that was accepted.
type job struct {
	*item         // as it is when the job is done
	jobID, origin string
	seal          bool
	last          jobState
}

// jobState is the state of a job as it is answered.
type jobState struct {
	State   string
	Bytes   int64
	MediaID string
	Error   struct{ Code, Detail string }
}

func (s jobState) ended() bool { return s.State == "done" || s.State == "failed" }

// fetch asks for an upload from a URL.
func (c *client) fetch(ctx context.Context, origin string, size int64) {
	c.made++
	seed := uint64(c.number)<<48 | uint64(c.made)<<16 | uint64(c.draw.Uint32N(1<<16))
	kind := "from a URL, " + origin
	if origin == imageFile {
		kind = imageFile
	}
	digest := sha256.New()
	size, _ = io.Copy(digest, c.env.origin.content(origin, seed, size))
	j := &job{origin: origin, seal: c.draw.IntN(2) == 0, item: &item{tenant: c.tenant, kind: kind, bytes: size, sum: hex.EncodeToString(digest.Sum(nil)),
		public: c.draw.IntN(2) == 0, caption: fmt.Sprintf("client %d upload %d", c.number, c.made), begun: time.Now()}}
	access := "private"
	if j.public {
		access = "public"
	}
	body, _ := json.Marshal(map[string]any{"url": c.env.origin.address(origin, seed, size), "caption": j.caption, "access": access, "group": fmt.Sprintf("g%d", c.made%5), "seal": j.seal})
	replica := c.pickReplica()
	got := c.send(context.WithoutCancel(ctx), http.MethodPost, replica.BaseURL+"/media/create/url", "application/json", strings.NewReader(string(body)), int64(len(body)))
	c.recordAnswer("POST /media/create/url", nil, got)
	if got.status != http.StatusAccepted {
		if got.status == 0 || got.status == http.StatusServiceUnavailable {
			c.model.unheard(j) // it may have been queued
		}
		return
	}
	var accepted struct{ JobID string }
	if err := json.Unmarshal(got.body, &accepted); err != nil || accepted.JobID == "" {
		c.model.wrong(nil, "an upload from a URL was answered %s", got.body)
		return
	}
	j.jobID = accepted.JobID
	j.note(c.model.begun, "POST /media/create/url (%s, seal %t) at %s: %s", origin, j.seal, replica.name, got.body)
	c.model.count("uploads from a URL accepted")
	c.jobs = append(c.jobs, j)
	c.model.pending(j)
}

// pollFetches reads the states of a few jobs.
func (c *client) pollFetches(ctx context.Context) {
	for range min(3, len(c.jobs)) {
		n := c.draw.IntN(len(c.jobs))
		j := c.jobs[n]
		if !c.readFetch(ctx, j) {
			continue
		}
		c.jobs = slices.Delete(c.jobs, n, n+1)
		if j.last.State != "done" {
			continue
		}
		c.items = append(c.items, j.item)
		status, _ := c.read(ctx, j.item)
		if c.checkNotPurged(j.item, status); !j.seal {
			c.continueDraft(ctx, j.item)
		}
	}
}

// readFetch reads the state of a job, and reports whether it has ended. What has ended is taken into the model.
func (c *client) readFetch(ctx context.Context, j *job) bool {
	replica := c.pickReplica()
	got := c.send(context.WithoutCancel(ctx), http.MethodGet, replica.BaseURL+"/media/create/url/"+j.jobID, "", nil, 0)
	c.recordAnswer("GET /media/create/url", j.item, got)
	if got.status == http.StatusNotFound {
		c.model.wrong(j.item, "an upload from a URL that was accepted is gone")
	}
	var state jobState
	if got.status != http.StatusOK || json.Unmarshal(got.body, &state) != nil {
		return false
	}
	if state.State != j.last.State {
		j.note(c.model.begun, "GET /media/create/url at %s: %s", replica.name, got.body)
	}
	j.last = state
	if wrong := j.wrong(time.Since(j.begun)); wrong != "" {
		c.model.wrong(j.item, "an upload from a URL (%s): %s: %s", j.origin, wrong, got.body)
	}
	if !state.ended() {
		return false
	}
	c.model.ended(j)
	c.model.count("uploads from a URL: " + strings.TrimSpace(state.State+" "+state.Error.Code))
	return true
}

// interruptions are the ways in which a job may end because of what is broken, or because an account is full.
var interruptions = []string{"interrupted", "unavailable", "storage_cap_exceeded"}

// wrong returns what is wrong with the state that a job has within a time of its request; empty if nothing is.
func (j *job) wrong(within time.Duration) string {
	if !slices.Contains([]string{"queued", "running", "done", "failed"}, j.last.State) {
		return "it has no state"
	}
	if j.last.Bytes > j.bytes {
		return fmt.Sprintf("it has received more than the %d bytes of the file", j.bytes)
	}
	want := map[string]string{cutFile: "incomplete", stuckFile: "timeout", noFile: "status_404"}[j.origin]
	switch j.last.State {
	case "done":
		switch {
		case want != "":
			return "it is done, and must fail with " + want
		case j.last.Bytes != j.bytes:
			return fmt.Sprintf("the file has %d bytes", j.bytes)
		case j.last.MediaID == "":
			return "it is done, and has no item"
		}
	case "failed":
		allowed := append([]string{want}, interruptions...)
		if want == "" && j.seal && within >= draftTTL { // the draft of an attempt that was killed may be purged before the next one seals it
			allowed = append(allowed, "not_permitted")
		}
		if !slices.Contains(allowed, j.last.Error.Code) || j.last.Error.Code == "" || j.last.Error.Detail == "" {
			return "it failed for no reason"
		}
	}
	return ""
}

// pending takes a job that was accepted into the model.
func (m *model) pending(j *job) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.jobs = append(m.jobs, j)
}

// unheard takes a request without an answer into the model: its job may run.
func (m *model) unheard(j *job) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.unheardJobs = append(m.unheardJobs, j)
}

// ended takes a job that has ended out of what is pending. The item of one that is done is acknowledged.
func (m *model) ended(j *job) {
	m.mu.Lock()
	m.jobs = slices.DeleteFunc(m.jobs, func(other *job) bool { return other == j })
	m.mu.Unlock()
	if j.last.State == "done" {
		j.id, j.sealTried, j.sealed = j.last.MediaID, j.seal, j.seal
		m.add(j.item)
	}
}

// ofUnheard returns a job without an answer that has made this item, and forgets it; nil if there is none.
func (m *model) ofUnheard(t *tenant, caption string) *job {
	m.mu.Lock()
	defer m.mu.Unlock()
	for n, j := range m.unheardJobs {
		if j.tenant == t && j.caption == caption && j.seal {
			m.unheardJobs = slices.Delete(m.unheardJobs, n, n+1)
			return j
		}
	}
	return nil
}

// endFetches waits until every job has ended: with nothing broken, another process takes over what the dead have
// left.
func (e *environment) endFetches(ctx context.Context, m *model) {
	c := &client{env: e, model: m, draw: newDraw(1, 0), http: newHTTP()}
	for until := time.Now().Add(stuckTimeout); ; faults.Sleep(ctx, 200*time.Millisecond) {
		m.mu.Lock()
		jobs := slices.Clone(m.jobs)
		m.mu.Unlock()
		if len(jobs) == 0 || ctx.Err() != nil {
			return
		}
		for _, j := range jobs {
			c.tenant = j.tenant
			if !c.readFetch(ctx, j) && time.Now().After(until) {
				m.wrong(j.item, "an upload from a URL has not ended: %+v", j.last)
				m.ended(j)
			}
		}
	}
}
