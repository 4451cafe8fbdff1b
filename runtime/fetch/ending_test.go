package fetch_test

import (
	"cmp"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fetch"
	"mediastack.dev/runtime/internal/runtimetest"
	"mediastack.dev/runtime/work"
)

// jobs is the store of one job, at its first attempt. It is no queue: the tests of it use PostgreSQL.
type jobs struct {
	fetch.Store
	hangs    time.Duration // how long the database takes to record the progress
	recovers bool          // after the first time
	stalls   time.Duration // how long the server does; 0 = 40 s
	err      error         // of what records the end
	ended    *fetch.Failure
	returns  int
}

func (j *jobs) BeginFetch(context.Context, uuid.UUID, func(uuid.UUID) []string, time.Time) (fetch.Claim, error) {
	return fetch.Claim{Job: fetch.Job{Request: fetch.Request{URL: "https://files.example.org/a"}}, Attempt: 1}, nil
}

func (j *jobs) FindPrincipalByKeyID(context.Context, uuid.UUID) (account.Principal, error) {
	return account.Principal{}, nil
}

func (j *jobs) ReportFetch(context.Context, fetch.Claim, int64, int64) error {
	time.Sleep(j.hangs) //nolint:forbidigo // the clock of synctest
	if j.recovers {
		j.hangs = 0
	}
	return nil
}

func (j *jobs) FinishFetch(_ context.Context, _ fetch.Claim, _ int64, failure *fetch.Failure) error {
	j.ended = failure
	return j.err
}

func (j *jobs) ReturnFetch(context.Context, fetch.Claim, time.Duration, bool) error {
	j.returns++
	return j.err
}

// attempt runs the job. Its server stalls, which is too long. It returns the log, and what becomes of the task.
func (j *jobs) attempt(t *testing.T) (log string, taskErr error) {
	t.Helper()
	var logged check.Buffer
	synctest.Test(t, func(t *testing.T) {
		stalls := source(func(context.Context) (fetch.File, error) {
			time.Sleep(cmp.Or(j.stalls, 40*time.Second)) //nolint:forbidigo // the clock of synctest
			return fetch.File{}, fetch.Fail(fetch.Timeout, "the server stalls")
		})
		cfg := runtimetest.FetchConfig()
		cfg.CheckInterval = 5 * time.Second
		service, err := fetch.New(cfg, fetch.Deps{Store: j, Source: stalls, Now: time.Now, Log: slog.New(slog.NewTextHandler(&logged, nil))})
		must(t, err)
		taskErr = service.Work(t.Context(), work.Task{})
	})
	return logged.String(), taskErr
}

// A timeout fails the job, unless the process did not run meanwhile: then the timeout says nothing about the server.
func TestAttempt_FailsByATimeoutOnlyWhileTheProcessRuns(t *testing.T) {
	t.Parallel()
	runs := &jobs{}
	if log, err := runs.attempt(t); err != nil || runs.returns != 0 || runs.ended == nil || runs.ended.Code != fetch.Timeout || !strings.Contains(log, "an upload from a URL failed") {
		t.Errorf("%v, %+v: %s", err, runs, log)
	}
	for name, paused := range map[string]*jobs{"at the end": {hangs: time.Minute}, "before it ran again": {hangs: 12 * time.Second, recovers: true, stalls: 2 * time.Minute}} {
		if log, err := paused.attempt(t); err == nil || paused.returns != 1 || paused.ended != nil || strings.Contains(log, "an upload from a URL failed") {
			t.Errorf("%s: %v, %+v: %s", name, err, paused, log)
		}
	}
}

// An attempt that has lost its job says nothing of the job, which another process has ended or runs.
func TestAttempt_ThatHasLostItsJobIsNotTheJobsFailure(t *testing.T) {
	t.Parallel()
	for name, j := range map[string]*jobs{"at its end": {err: fetch.ErrLost}, "when it would be repeated": {err: fetch.ErrLost, hangs: time.Minute}} {
		if log, err := j.attempt(t); err != nil || strings.Contains(log, "failed") || !strings.Contains(log, "taken over by another process") {
			t.Errorf("%s: %v: %s", name, err, log)
		}
	}
}
