package main

import (
	"bytes"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"mediastack.dev/hack/servers"
	"mediastack.dev/hack/test/chaos/faults"
)

// A short run of what `make crash` does at length. The seed is another one each time;
// the output names it.
func TestRun_LosesNothingUnderFaults(t *testing.T) {
	parent := os.TempDir()
	if !servers.PostgresCanReach(parent) {
		parent = "/tmp"
	}
	var out bytes.Buffer
	if err := (options{Scenario: "service", Kills: 12, Pause: 700 * time.Millisecond, Clients: 5, Accounts: 5, Dir: parent}).run(t.Context(), &out); err != nil {
		t.Errorf("%v\n%s", err, out.String())
	}
	t.Log(out.String())
}

func TestItem_ChecksAnswersAgainstHistory(t *testing.T) {
	t.Parallel()
	sealed := func(i *item) { i.sealAnswered(200) }
	sealLost := func(i *item) { i.sealAnswered(0) }
	deleted := func(i *item) { i.deleteAnswered(200) }
	deleteLost := func(i *item) { i.deleteAnswered(503) }
	purged := func(i *item) { i.sealAnswered(404) }
	restored := func(i *item) { i.restoreAnswered(200, true) }
	restoreLost := func(i *item) { i.restoreAnswered(503, true) }
	ended := func(i *item) { i.restoreAnswered(404, true) }
	for name, c := range map[string]struct {
		did          []func(*item)
		status       int
		temp, listed bool
		want         string
	}{
		"a sealed item":                      {did: []func(*item){sealed}, status: 200, listed: true},
		"a sealed item that is lost":         {did: []func(*item){sealed}, status: 404, want: "is gone"},
		"a sealed item that is not listed":   {did: []func(*item){sealed}, status: 200, want: "not listed"},
		"a sealed item that is a draft":      {did: []func(*item){sealed}, status: 200, temp: true, want: "is a draft"},
		"a sealed item that can't be read":   {did: []func(*item){sealed}, status: 503, listed: true, want: "answered 503"},
		"a draft that was purged":            {status: 404},
		"a draft that was not purged":        {status: 200, temp: true, want: "is a draft"},
		"a draft that sealed itself":         {status: 200, listed: true, want: "nobody sealed it"},
		"a seal that was lost, and done":     {did: []func(*item){sealLost}, status: 200, listed: true},
		"a seal that was lost, and not done": {did: []func(*item){sealLost}, status: 404},
		"a deleted item":                     {did: []func(*item){sealed, deleted}, status: 404},
		"a deleted item that is there":       {did: []func(*item){sealed, deleted}, status: 200, listed: true, want: "but is there"},
		"a deleted item that is listed":      {did: []func(*item){sealed, deleted}, status: 404, listed: true, want: "not there"},
		"a delete that was lost, and done":   {did: []func(*item){sealed, deleteLost}, status: 404},
		"a delete that was lost, not done":   {did: []func(*item){sealed, deleteLost}, status: 200, listed: true},
		"a restored item":                    {did: []func(*item){sealed, deleted, restored}, status: 200, listed: true},
		"a restored item that is lost":       {did: []func(*item){sealed, deleted, restored}, status: 404, want: "is gone"},
		"a restored item, delete was lost":   {did: []func(*item){sealed, deleteLost, restored}, status: 404},
		"a restore that was lost, and done":  {did: []func(*item){sealed, deleted, restoreLost}, status: 200, listed: true},
		"a restore that was lost, not done":  {did: []func(*item){sealed, deleted, restoreLost}, status: 404},
		"an ended item that is there":        {did: []func(*item){sealed, deleted, restoreLost, ended}, status: 200, listed: true, want: "but is there"},
		"a purged draft that comes back":     {did: []func(*item){purged}, status: 200, listed: true, want: "but is there"},
	} {
		i := &item{}
		for _, do := range c.did {
			do(i)
		}
		if got := i.final(c.status, c.temp, c.listed); c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	for name, wrong := range map[string]string{
		"a seal after a delete":        func() string { i := &item{}; deleted(i); return i.sealAnswered(200) }(),
		"a delete that finds nothing":  func() string { i := &item{}; sealed(i); return i.deleteAnswered(404) }(),
		"a race that only seals":       func() string { i := &item{}; return i.raced(200, 404) }(),
		"a race for a deleted item":    func() string { i := &item{}; deleted(i); return i.raced(404, 200) }(),
		"a seal of what was sealed":    func() string { i := &item{}; sealed(i); return i.sealAnswered(404) }(),
		"a restore without undo":       func() string { i := &item{}; sealed(i); deleted(i); return i.restoreAnswered(200, false) }(),
		"a restore of a deleted draft": func() string { i := &item{}; deleted(i); return i.restoreAnswered(200, true) }(),
		"a restore that finds nothing": func() string { i := &item{}; sealed(i); return i.restoreAnswered(404, true) }(),
		"a delete of what was deleted": func() string { i := &item{}; deleted(i); return i.deleteAnswered(200) }(),
	} {
		if wrong == "" {
			t.Errorf("%s must be wrong", name)
		}
	}
	for name, wrong := range map[string]string{
		"a race":                        func() string { i := &item{}; return i.raced(404, 200) }(),
		"a race in the other order":     func() string { i := &item{}; return i.raced(200, 200) }(),
		"a race of which nothing came":  func() string { i := &item{}; return i.raced(0, 0) }(),
		"a race for a purged draft":     func() string { i := &item{}; return i.raced(404, 404) }(),
		"a delete after a lost delete":  func() string { i := &item{}; sealed(i); deleteLost(i); return i.deleteAnswered(404) }(),
		"a second delete, not found":    func() string { i := &item{}; deleted(i); return i.deleteAnswered(404) }(),
		"a seal that the purge was for": func() string { i := &item{}; return i.sealAnswered(404) }(),
	} {
		if wrong != "" {
			t.Errorf("%s: %s", name, wrong)
		}
	}
}

func TestItem_KnowsTheCaptionsItMayHave(t *testing.T) {
	t.Parallel()
	i := &item{caption: "first"}
	i.sealAnswered(200)
	i.changing("lost")
	i.changeAnswered(503, "lost")
	i.changing("second")
	if wrong := i.changeAnswered(200, "second"); wrong != "" || !i.mayHave("second") || !i.mayHave("lost") || i.mayHave("first") {
		t.Errorf("%s; %q %q", wrong, i.caption, i.changes)
	}
	i.changing("third")
	if wrong := i.changeAnswered(404, "third"); !strings.Contains(wrong, "is gone") || i.mayHave("third") {
		t.Errorf("a change that does not find a sealed item: %q", wrong)
	}
	i.deleteAnswered(200)
	if wrong := i.changeAnswered(200, "fourth"); !strings.Contains(wrong, "but is there") {
		t.Errorf("a change of a deleted item: %q", wrong)
	}
}

func TestBatch_EachItemHasAResultOfItsOwn(t *testing.T) {
	t.Parallel()
	c := &client{tenant: &tenant{undo: true}, model: newModel(time.Now())}
	sealed := &item{id: "1"}
	sealed.sealAnswered(200)
	for operation, wrong := range map[string]string{"seal": "is gone", "delete": "is gone", "restore": "is gone", "update": "is gone"} {
		i := &item{id: "1", sealTried: true, sealed: true}
		if got := c.batched(operation, i, batchResult{MediaID: "1", Status: 404}, "c"); !strings.Contains(got, wrong) {
			t.Errorf("%s of a sealed item that is not found: %q", operation, got)
		}
	}
	if got := c.batched("update", sealed, batchResult{MediaID: "1", Status: 200, Item: &document{MediaID: "1", Caption: "other"}}, "c"); got == "" {
		t.Error("an item that was not changed is right")
	}
	if got := c.batched("update", sealed, batchResult{MediaID: "1", Status: 200, Item: &document{MediaID: "1", Caption: "c"}}, "c"); got != "" || sealed.caption != "c" {
		t.Errorf("a change: %q, %q", got, sealed.caption)
	}
	for status, wrong := range map[int]bool{0: false, 200: false, 404: false, 429: false, 503: false, 400: true, 403: true, 409: true, 500: true} {
		if (batchResult{Status: status}).wrong() != wrong {
			t.Errorf("a result of %d: %t, want %t", status, !wrong, wrong)
		}
	}
}

func TestJob_EndsOnlyAsItsOriginSays(t *testing.T) {
	t.Parallel()
	done, failed := func(bytes int64) jobState { return jobState{State: "done", Bytes: bytes, MediaID: "1"} }, func(code string) jobState {
		s := jobState{State: "failed"}
		s.Error.Code, s.Error.Detail = code, "why"
		return s
	}
	for name, c := range map[string]struct {
		origin string
		seal   bool
		within time.Duration
		state  jobState
		want   string
	}{
		"done":                           {origin: wholeFile, state: done(10)},
		"running":                        {origin: wholeFile, state: jobState{State: "running", Bytes: 5}},
		"done with a part":               {origin: wholeFile, state: done(5), want: "has 10 bytes"},
		"done without an item":           {origin: wholeFile, state: jobState{State: "done", Bytes: 10}, want: "no item"},
		"more than there is":             {origin: wholeFile, state: jobState{State: "running", Bytes: 11}, want: "more than"},
		"without a state":                {origin: wholeFile, want: "no state"},
		"interrupted":                    {origin: slowFile, state: failed("interrupted")},
		"full":                           {origin: slowFile, state: failed("storage_cap_exceeded")},
		"failed without a code":          {origin: wholeFile, state: failed(""), want: "no reason"},
		"failed by a bug":                {origin: wholeFile, state: failed("internal_error"), want: "no reason"},
		"cut":                            {origin: cutFile, state: failed("incomplete")},
		"a cut file that is done":        {origin: cutFile, state: done(10), want: "must fail"},
		"a whole file that was cut":      {origin: wholeFile, state: failed("incomplete"), want: "no reason"},
		"missing":                        {origin: noFile, state: failed("status_404")},
		"stuck":                          {origin: stuckFile, state: failed("timeout")},
		"purged before the seal":         {origin: wholeFile, seal: true, within: draftTTL, state: failed("not_permitted")},
		"gone before drafts are purged":  {origin: wholeFile, seal: true, within: draftTTL - time.Second, state: failed("not_permitted"), want: "no reason"},
		"purged, although nobody seals":  {origin: wholeFile, state: failed("not_permitted"), want: "no reason"},
		"a missing file that is not 404": {origin: noFile, state: failed("status_500"), want: "no reason"},
	} {
		j := &job{item: &item{bytes: 10}, origin: c.origin, seal: c.seal, last: c.state}
		if got := j.wrong(c.within); c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// A run in which two requests were answered 500 once passed.
func TestAnswer_WrongWhenTheServiceFails(t *testing.T) {
	t.Parallel()
	retry := http.Header{"Retry-After": {"5"}}
	for name, c := range map[string]struct {
		got     answer
		offsets bool
		want    string
	}{
		"no answer":                          {got: answer{}},
		"success":                            {got: answer{status: 201}},
		"a store that is away":               {got: answer{status: 503, header: retry}},
		"a store that is away, for how long": {got: answer{status: 503}, want: "lacks Retry-After"},
		"a lock without Retry-After":         {got: answer{status: 423}, want: "lacks Retry-After"},
		"a failure":                          {got: answer{status: 500}, want: "the service failed"},
		"a gateway's failure":                {got: answer{status: 502, header: retry}, want: "the service failed"},
		"a valid request that is rejected":   {got: answer{status: 400}, want: "was right"},
		"a conflict":                         {got: answer{status: 409}, want: "was right"},
		"a wrong offset":                     {got: answer{status: 409}, offsets: true},
	} {
		if wrong := c.got.wrong(c.offsets); (wrong == "") != (c.want == "") || !strings.Contains(wrong, c.want) {
			t.Errorf("%s: %q, want %q", name, wrong, c.want)
		}
	}
}

func TestProblem_PrintedWithTheLogOfItsRequest(t *testing.T) {
	t.Parallel()
	m := newModel(time.Now())
	c := &client{model: m}
	c.recordAnswer("PATCH", nil, answer{status: 500, header: http.Header{"X-Request-Id": {"request-1"}}})
	var out bytes.Buffer
	m.print(&out, func(request string) []string { return []string{"the log line of " + request} })
	if !m.failed() || !strings.Contains(out.String(), "the log line of request-1") {
		t.Errorf("printed %q", out.String())
	}
}

func TestSeed_FixesTheSchedule(t *testing.T) {
	t.Parallel()
	schedule := func(seed uint64) string {
		c := newChaos(&environment{replicas: []*replica{{}, {}}, dbProxy: &faults.Proxy{}, s3Proxy: &faults.Proxy{}}, newModel(time.Now()), seed, time.Second)
		var names []string
		for range 50 {
			names = append(names, c.Pick().Name)
		}
		return strings.Join(names, ",")
	}
	first := schedule(1)
	if again := schedule(1); first != again || first == schedule(2) {
		t.Error("the schedule does not follow from the seed")
	}
}
