package gate_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/gate"
	"mediastack.dev/runtime/internal/runtimetest"
)

var errAway = errors.New("connection refused")

// waiting waits until the file of an item was tried to be checked, and failed.
func (w *world) failed(t *testing.T, id uuid.UUID) {
	t.Helper()
	wait.UntilNone(t, func() string {
		if w.QueryInt(t, `SELECT count(*) FROM work WHERE kind = 'scan' AND key = $1 AND failure <> '' AND claim IS NULL`, id) == 1 {
			return ""
		}
		return "no check has failed"
	})
}

// What an account wants of files that have no result, or that cannot be checked.
func TestResult_PoliciesOfTheAccount(t *testing.T) {
	t.Parallel()
	unscannable := gate.Result{Outcome: gate.Unscannable, Name: "it is encrypted"}
	const (
		sealed   = "sealed"
		waits    = "waits"
		rejected = "rejected"
	)
	for name, c := range map[string]struct {
		result gate.Result
		err    error
		change func(*account.Gate)
		data   []byte
		want   string
	}{
		"clean":                           {result: gate.Result{Outcome: gate.Clean}, want: sealed},
		"empty":                           {result: gate.Result{Outcome: gate.Clean}, data: []byte{}, want: sealed},
		"unscannable":                     {result: unscannable, want: rejected},
		"unscannable, and allowed":        {result: unscannable, change: func(g *account.Gate) { g.AllowUnscannable = true }, want: sealed},
		"too large":                       {result: gate.Result{Outcome: gate.Clean}, change: func(g *account.Gate) { g.MaxScanBytes = 3 }, want: rejected},
		"too large, and allowed":          {err: errAway, change: func(g *account.Gate) { g.MaxScanBytes, g.AllowUnscannable = 3, true }, want: sealed},
		"the scanner is away":             {err: errAway, want: waits},
		"away, unscannable are allowed":   {err: errAway, change: func(g *account.Gate) { g.AllowUnscannable = true }, want: waits},
		"the scanner is away, allowed":    {err: errAway, change: func(g *account.Gate) { g.AllowUnchecked = true }, want: sealed},
		"there is no scanner":             {change: func(g *account.Gate) { g.Scanner = account.ScannerHTTP }, want: waits},
		"there is no scanner, allowed":    {change: func(g *account.Gate) { g.Scanner, g.AllowUnchecked = account.ScannerHTTP, true }, want: sealed},
		"a result that nobody knows":      {result: gate.Result{Outcome: "dubious"}, want: waits},
		"a scanner that fails with it":    {err: fmt.Errorf("%w: x", gate.ErrFile), want: waits},
		"it fails with it, away allowed":  {err: fmt.Errorf("%w: x", gate.ErrFile), change: func(g *account.Gate) { g.AllowUnchecked = true }, want: waits},
		"it interrupts it":                {err: fmt.Errorf("%w: x", gate.ErrInterrupted), want: waits},
		"it interrupts it, away allowed":  {err: fmt.Errorf("%w: x", gate.ErrInterrupted), change: func(g *account.Gate) { g.AllowUnchecked = true }, want: waits},
		"infected, everything is allowed": {result: gate.Result{Outcome: gate.Infected, Name: "X"}, change: func(g *account.Gate) { g.AllowUnchecked, g.AllowUnscannable = true, true }, want: ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, scanner := withScripted(t)
			scanner.answers(c.result, c.err)
			one := w.gated(t, "one", func(s *account.Spec) {
				if c.change != nil {
					c.change(&s.Gate)
				}
			})
			data := c.data
			if data == nil {
				data = []byte("file")
			}
			id := w.draft(t, one, data)
			w.seal(t, one, id).MustBe(t, http.StatusAccepted, "seal")
			w.run(t)
			if c.want == waits {
				w.failed(t, id)
			} else {
				w.noTasks(t)
			}
			got := w.seal(t, one, id)
			switch c.want {
			case sealed:
				got.Is(t, http.StatusOK, "seal")
			case waits:
				got.Is(t, http.StatusAccepted, "seal")
			case rejected:
				got.Is(t, http.StatusUnprocessableEntity, "seal")
				item := itemOf(t, w.do(t, http.MethodGet, "/media/get/"+id.String(), runtimetest.Key(one.Key)))
				if item.State != "rejected" || !item.Temp {
					t.Errorf("the item is %+v", item)
				}
				w.do(t, http.MethodGet, item.File).Is(t, http.StatusNotFound, "download the file")
				w.Counts(t, 1, "rejections", `SELECT count(*) FROM journal WHERE type = 'media.rejected'`)
			default:
				got.Is(t, http.StatusUnprocessableEntity, "seal")
				w.Counts(t, 0, "items", `SELECT count(*) FROM stored_item`)
			}
			want := int64(0)
			if c.want == sealed {
				want = 1
			}
			w.Counts(t, want, "sealed items", `SELECT count(*) FROM stored_item WHERE sealed_at IS NOT NULL`)
		})
	}
}

// A file with which the scanner fails again and again must not wait for ever.
func TestResult_AFileWithWhichTheScannerFailsIsUnscannable(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err   error
		scans int
	}{
		"it answers with an error": {gate.ErrFile, 5},
		"it crashes":               {gate.ErrInterrupted, 8},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, scanner := withScripted(t)
			scanner.answers(gate.Result{}, fmt.Errorf("%w: x", c.err))
			one := w.gated(t, "one")
			id := w.draft(t, one, []byte("file"))
			w.run(t)
			w.rejected(t, one, id)
			if scanner.count() != c.scans {
				t.Errorf("%d scans", scanner.count())
			}
		})
	}
}

// rejected waits until a seal is answered that the file was rejected, and lets the checks run meanwhile.
func (w *world) rejected(t *testing.T, of runtimetest.Tenant, id uuid.UUID) {
	t.Helper()
	wait.UntilNone(t, func() string {
		w.due(t)
		if answer := w.seal(t, of, id); answer.Status != http.StatusUnprocessableEntity {
			return string(answer.Body)
		}
		return ""
	})
}

// However often a scanner was away, in whatever way it looks so, a file has all its attempts when the scanner is there.
func TestResult_AnAbsentScannerIsNoFailureOfTheFile(t *testing.T) {
	t.Parallel()
	for name, allowed := range map[string]bool{"files wait": false, "files pass, but none that was the cause once": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, scanner := withScripted(t)
			interrupted := fmt.Errorf("%w: x", gate.ErrInterrupted)
			scanner.answers(gate.Result{}, interrupted) // behind a proxy that accepts connections
			one := w.gated(t, "one", func(s *account.Spec) { s.Gate.AllowUnchecked = allowed })
			id := w.draft(t, one, []byte("file"))
			w.seal(t, one, id).MustBe(t, http.StatusAccepted, "seal")
			w.run(t)
			w.failed(t, id)
			scanner.goes(errAway)
			for range 20 {
				w.exec(t, `UPDATE work SET due_at = now(), failure = 'none' WHERE kind = 'scan' AND claim IS NULL`)
				w.Tasks.Wake(gate.ScanWork)
				wait.UntilNone(t, func() string {
					if w.QueryInt(t, `SELECT count(*) FROM work WHERE kind = 'scan' AND key = $1 AND failure LIKE '%' || $2 AND claim IS NULL`, id, errAway.Error()) == 1 {
						return ""
					}
					return "the absence is not recorded"
				})
			}
			if attempts := w.QueryInt(t, `SELECT attempts FROM work WHERE kind = 'scan'`); attempts != 1 || scanner.count() != 1 {
				t.Errorf("%d attempts are counted, after %d scans", attempts, scanner.count())
			}
			scanner.goes(nil)
			w.rejected(t, one, id)
			if scanner.count() != 8 {
				t.Errorf("%d scans", scanner.count())
			}
		})
	}
}

// A draft of before the gate was switched on is checked when it is to be sealed, and one of after it was switched off is not.
func TestResult_GateThatIsSwitchedOnAndOff(t *testing.T) {
	t.Parallel()
	w, scanner := withScripted(t)
	one := w.gated(t, "one", func(s *account.Spec) { s.Gate = account.Gate{} })
	before, early := w.draft(t, one, []byte("before")), w.draft(t, one, []byte("early"))
	w.seal(t, one, early).MustBe(t, http.StatusOK, "seal without a gate")
	w.Counts(t, 0, "tasks", `SELECT count(*) FROM work WHERE kind = 'scan'`)
	on := func(s *account.Spec) { s.Gate = account.Gate{Scanner: account.ScannerClamd, MaxScanBytes: 1 << 20} }
	w.Change(t, one, on)
	wait.UntilNone(t, func() string { // until the replica knows of it
		if answer := w.seal(t, one, w.draft(t, one, []byte("other"))); answer.Status != http.StatusAccepted {
			return string(answer.Body)
		}
		return ""
	})
	w.seal(t, one, before).Is(t, http.StatusAccepted, "seal a draft of before")
	w.seal(t, one, early).Is(t, http.StatusOK, "seal what is sealed")
	late := w.draft(t, one, []byte("late"))
	scanner.answers(gate.Result{}, errAway)
	w.run(t)
	w.failed(t, late)
	w.Change(t, one, func(s *account.Spec) { s.Gate = account.Gate{} })
	w.due(t)
	w.noTasks(t)
	w.sealed(t, one, before)
	w.seal(t, one, late).Is(t, http.StatusOK, "seal after the gate was switched off")
}

// The statement of a replica that knows of no gate seals nothing that was not checked.
func TestResult_NoStatementSealsWhatWaits(t *testing.T) {
	t.Parallel()
	w, _ := withScripted(t)
	one := w.gated(t, "one")
	id := w.draft(t, one, []byte("file"))
	p := w.Principal(t, one)
	p.Account.Gate = account.Gate{}
	item, err := w.Media.Seal(t.Context(), p, id)
	if err != nil || !item.Draft() {
		t.Errorf("%+v, %v", item, err)
	}
	w.Counts(t, 0, "sealed items", `SELECT count(*) FROM item WHERE sealed_at IS NOT NULL`)
}

// A purge and a late result exclude each other.
func TestResult_LateOneFindsNoDraft(t *testing.T) {
	t.Parallel()
	for _, result := range []gate.Outcome{gate.Clean, gate.Infected, gate.Unscannable} {
		t.Run(string(result), func(t *testing.T) {
			t.Parallel()
			w, scanner := withScripted(t)
			scanner.answers(gate.Result{Outcome: result, Name: "X"}, nil)
			one := w.gated(t, "one")
			id := w.draft(t, one, []byte("file"))
			w.seal(t, one, id).MustBe(t, http.StatusAccepted, "seal")
			scanner.during = func() {
				if purged, err := w.Store.Items.PurgeDrafts(t.Context(), time.Now().Add(time.Hour), 10); err != nil || purged != 1 {
					t.Errorf("%d drafts are purged: %v", purged, err)
				}
			}
			w.run(t)
			w.noTasks(t)
			w.seal(t, one, id).Is(t, http.StatusNotFound, "seal a draft that was purged")
			w.Counts(t, 0, "items", `SELECT count(*) FROM stored_item`)
			w.Counts(t, 0, "files in quarantine", `SELECT count(*) FROM quarantine`)
			w.Counts(t, 0, "bytes of the cap", `SELECT bytes FROM account_usage`)
			w.Counts(t, 1, "purges", `SELECT count(*) FROM journal WHERE type = 'media.purged'`)
			w.Counts(t, 0, "results", `SELECT count(*) FROM journal WHERE type IN ('media.sealed', 'media.rejected')`)
		})
	}
}

// hanging is a scanner that needs long for the files "slow".
type hanging struct {
	began chan struct{}
	end   chan struct{}
}

// Ping implements gate.Scanner.
func (hanging) Ping(context.Context) error { return nil }

// Scan implements gate.Scanner.
func (h hanging) Scan(ctx context.Context, file io.Reader, _ int64) (gate.Result, error) {
	data, err := io.ReadAll(file)
	if err == nil && string(data) == "slow" {
		h.began <- struct{}{}
		select {
		case <-h.end:
		case <-ctx.Done():
			return gate.Result{}, ctx.Err()
		}
	}
	return gate.Result{Outcome: gate.Clean}, err
}

// However many files of one account take long, that of another one is checked.
func TestResult_OneAccountHoldsNoOtherUp(t *testing.T) {
	t.Parallel()
	scanner := hanging{make(chan struct{}, 10), make(chan struct{})}
	w := newWorld(t, map[string]gate.Scanner{account.ScannerClamd: scanner})
	one, other := w.gated(t, "one"), w.gated(t, "other")
	for range 4 {
		w.draft(t, one, []byte("slow"))
	}
	w.run(t)
	wait.Receive(t, "a slow file is scanned", scanner.began)
	id := w.draft(t, other, []byte("fast"))
	w.seal(t, other, id)
	w.sealed(t, other, id)
	close(scanner.end)
	w.noTasks(t)
}

// A process that dies while it has a file scanned is followed by another one.
func TestResult_AnotherProcessContinues(t *testing.T) {
	t.Parallel()
	w, scanner := withScripted(t)
	one := w.gated(t, "one")
	id := w.draft(t, one, []byte("file"))
	w.seal(t, one, id).MustBe(t, http.StatusAccepted, "seal")
	w.exec(t, `INSERT INTO runtime_instance (id, version, started_at, alive_since, lease_ends) VALUES ('00000000-0000-4000-8000-000000000001', 'x', now(), now(), now() - interval '1s')`)
	w.exec(t, `UPDATE work SET claim = gen_random_uuid(), instance_id = '00000000-0000-4000-8000-000000000001', due_at = now() + interval '1h' WHERE kind = 'scan'`)
	w.run(t)
	w.exec(t, `UPDATE runtime_instance SET alive_since = now() - interval '2h'`)
	w.sealed(t, one, id)
	if scanner.count() != 1 {
		t.Errorf("%d scans", scanner.count())
	}
}

// The gate of an account, its drafts and its quarantine are those of its app only.
func TestGate_IsolatesTenants(t *testing.T) {
	t.Parallel()
	w, scanner := withScripted(t)
	one, other := w.gated(t, "one"), w.gated(t, "other")
	plain := w.gated(t, "plain", func(s *account.Spec) { s.Gate = account.Gate{} })
	sibling := w.AddApp(t, one, "sibling")
	waiting := w.draft(t, one, []byte("waiting"))
	for _, foreign := range []runtimetest.Tenant{other, plain, sibling} {
		w.seal(t, foreign, waiting).Is(t, http.StatusNotFound, "seal a draft of another app")
	}
	w.Counts(t, 0, "seals that are wanted", `SELECT count(*) FROM item WHERE gate_state = 4`)
	scanner.answers(gate.Result{Outcome: gate.Infected, Name: "X"}, nil)
	w.run(t)
	w.noTasks(t)
	w.seal(t, one, waiting).Is(t, http.StatusUnprocessableEntity, "seal the rejected file")
	var missing []byte
	for _, foreign := range []runtimetest.Tenant{other, plain, sibling} {
		answer := w.seal(t, foreign, waiting)
		answer.Is(t, http.StatusNotFound, "seal a rejected file of another app")
		missing = w.seal(t, foreign, uuid.New()).Body
		if !bytes.Equal(answer.Body, missing) && !strings.Contains(string(answer.Body), "media item not found") {
			t.Errorf("%s differs from %s", answer.Body, missing)
		}
	}
	free := w.draft(t, plain, []byte("unchecked"))
	w.seal(t, plain, free).Is(t, http.StatusOK, "seal in an account without a gate")
	if scanner.count() != 1 {
		t.Errorf("%d scans", scanner.count())
	}
}
