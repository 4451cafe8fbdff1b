package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"mediastack.dev/hack/testenv"
	testwait "mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/account"
)

// The shipped programs check files with a clamd, also those of a process that is killed. Files in quarantine are no orphans, until the purge
// ends them.
func TestGate_ChecksFilesOfAKilledRuntime(t *testing.T) {
	t.Parallel()
	clamd := testenv.ClamdServer(t)
	r := startTwo(t, 64<<20, "SERVICE_CLAMD_ADDRESS=tcp://"+clamd.Server.Address)
	r.Change(t, r.tenant, func(s *account.Spec) { s.Gate = account.Gate{Scanner: account.ScannerClamd, MaxScanBytes: 8 << 20} })
	clamd.Stop()
	sealing := func(to *testenv.RuntimeProcess, data []byte) int {
		t.Helper()
		status, _, text := r.send(t.Context(), to, bytes.NewReader(data))
		var draft, answer struct{ MediaID, State string }
		if status != http.StatusCreated || json.Unmarshal([]byte(text), &draft) != nil {
			t.Fatalf("%d %s", status, text)
		}
		return r.askJSON(t, to, http.MethodPost, "/media/seal/"+draft.MediaID, "", &answer)
	}
	for _, to := range []*testenv.RuntimeProcess{r.first, r.second} {
		testwait.Until(t, "the process knows of the gate", func() bool { return sealing(to, []byte("first")) == http.StatusAccepted })
	}
	const each = 10
	unchecked, others := r.QueryInt(t, `SELECT count(*) FROM item WHERE sealed_at IS NOT NULL`), r.QueryInt(t, `SELECT count(*) FROM item`)
	for n := range 2 * each {
		data, to := fmt.Appendf(nil, "clean %d", n), r.first
		if n%2 == 1 {
			data, to = append(testenv.EICAR(), fmt.Sprint(n)...), r.second
		}
		if status := sealing(to, data); status != http.StatusAccepted {
			t.Errorf("seal: %d", status)
		}
	}
	r.Counts(t, unchecked, "items are sealed unchecked", `SELECT count(*) FROM item WHERE sealed_at IS NOT NULL`)
	must(t, r.first.Signal(syscall.SIGKILL))
	clamd.Start()
	r.QueryInt(t, `WITH due AS (UPDATE work SET due_at = now() WHERE kind = 'scan' AND claim IS NULL RETURNING 1) SELECT count(*) FROM due`)
	testwait.UntilNone(t, func() string {
		if n := r.QueryInt(t, `SELECT count(*) FROM work WHERE kind = 'scan'`); n > 0 {
			return fmt.Sprintf("%d files are to be checked", n)
		}
		return ""
	})
	r.Counts(t, others+each, "items are sealed", `SELECT count(*) FROM item WHERE sealed_at IS NOT NULL`)
	r.Counts(t, each, "files are in quarantine", `SELECT count(*) FROM quarantine WHERE finding LIKE 'Eicar%'`)
	r.swept(t, others+each)
	r.Counts(t, each, "files are in quarantine after the purge", `SELECT count(*) FROM quarantine`)
	r.QueryInt(t, `WITH late AS (UPDATE quarantine SET at = now() - interval '31 days' RETURNING 1) SELECT count(*) FROM late`)
	r.swept(t, others+each)
	r.Counts(t, 0, "files are in quarantine after 30 days", `SELECT count(*) FROM quarantine`)
	r.swept(t, others+each)
	r.Counts(t, 0, "objects are to be removed", `SELECT count(*) FROM object_removal`)
}

func TestGate_RejectsAddressesThatAreNone(t *testing.T) {
	t.Parallel()
	for flag, want := range map[string]string{"--clamd-address=10.0.0.1:3310": "SERVICE_CLAMD_ADDRESS", "--gate-urls=ftp://u:hunter2@host/": "SERVICE_GATE_URLS", "--gate-scans=0": "SERVICE_GATE_SCANS"} {
		code, _, err := call(t.Context(), "serve", "--base-url=http://media.test", "--secret="+goodSecret, "--database-url=postgres://u:x@127.0.0.1:1/x",
			"--s3-endpoint=http://127.0.0.1:1", "--s3-access-key=a", "--s3-secret-key=b", flag)
		if code != exitUsage || !strings.Contains(err, want) || strings.Contains(err, "hunter2") {
			t.Errorf("%s: %d %s", flag, code, err)
		}
	}
}
