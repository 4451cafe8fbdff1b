package e2e

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/hack/testenv/wait"
)

// An administrator asks who did what with `kubectl mediastack activity`, and needs no key for it.
func TestActivity_OfTheProductIsListedByThePlugin(t *testing.T) {
	t.Parallel()
	s := start(t, filepath.Join(testenv.TempDir(t), "data"))
	plugin := testenv.Binary(t, "kubectl-mediastack")
	of := func(args ...string) []string {
		return append([]string{"activity", "demo", "--namespace", "team-a", "--kubeconfig", s.Kubeconfig}, args...)
	}
	activity := func(args ...string) string {
		t.Helper()
		out := run(t, "", plugin, of(args...)...)
		if strings.Contains(out, s.APIKey) {
			t.Error("the output has the API key")
		}
		return out
	}

	out, err := exec.CommandContext(t.Context(), plugin, of()...).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "the account has no journal") {
		t.Fatalf("without a journal: %v %s", err, out)
	}
	_, command, _ := strings.Cut(string(out), "switched on: kubectl ")
	s.kubectl("", strings.Fields(strings.ReplaceAll(command, "'", ""))...) // as it says
	wait.Until(t, "the journal is on", func() bool {
		return exec.CommandContext(t.Context(), plugin, of()...).Run() == nil
	})

	// The last event of a running transaction is told after it.
	tells := func(want string, args ...string) (out string) {
		t.Helper()
		wait.Until(t, want, func() bool {
			out = activity(args...)
			return strings.Contains(out, want)
		})
		return out
	}
	draft := s.upload(s.APIKey, "a.txt", bytes.Repeat([]byte("hello, it is me\n"), 1<<16))
	table := tells("media.uploaded", "--types", "media.uploaded,media.sealed")
	if lines := strings.Split(strings.TrimSpace(table), "\n"); len(lines) != 2 || strings.Join(strings.Fields(lines[0]), " ") != "WHEN WHO WHAT ITEM" || !strings.HasSuffix(lines[1], draft.MediaID) || !strings.Contains(lines[1], " key ") {
		t.Errorf("the table is\n%s", table)
	}

	follow := exec.CommandContext(t.Context(), plugin, of("--follow", "--output", "json")...)
	var told check.Buffer
	follow.Stdout = &told
	must(t, follow.Start())
	ended := make(chan error, 1)
	go func() { ended <- follow.Wait() }()
	wait.Until(t, "what was before is told", func() bool { return strings.Contains(told.String(), "media.uploaded") })
	if status := s.call(s.APIKey, "POST", "/media/seal/"+draft.MediaID, "", nil, nil); status != 200 {
		t.Fatalf("seal: %d", status)
	}
	wait.Until(t, "the seal is told", func() bool { return strings.Contains(told.String(), "media.sealed") })
	// The bytes of the upload are all of the cap now.
	s.kubectl("", "--namespace", "team-a", "patch", "mediaaccount", "demo", "--type", "merge", "--patch", `{"spec":{"storage":{"maxStorage":"1Mi","maxUploadSize":"1Mi"}}}`)
	wait.Until(t, "the cap that is reached is told", func() bool { return strings.Contains(told.String(), "usage.threshold") })
	must(t, follow.Process.Signal(os.Interrupt))
	if err := wait.Receive(t, "the command ends with Ctrl-C", ended); err != nil {
		t.Errorf("it ends with %v", err)
	}
	for line := range strings.Lines(told.String()) {
		var event struct {
			Type    string
			Percent int
		}
		if err := json.Unmarshal([]byte(line), &event); err != nil || event.Type == "" || (event.Percent == 100) != (event.Type == "usage.threshold") {
			t.Errorf("a line is %q: %v", line, err)
		}
	}
	if _, err := exec.CommandContext(t.Context(), plugin, of("--app", "missing")...).CombinedOutput(); err == nil {
		t.Error("an app that is missing has activity")
	}
}
