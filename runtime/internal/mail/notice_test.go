package mail_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/uuid"

	"mediastack.dev/runtime/gate"
	"mediastack.dev/runtime/internal/mail"
	"mediastack.dev/runtime/work"
)

// notice returns the task to tell an owner of a rejected file.
func notice(t *testing.T, to, finding string) work.Task {
	t.Helper()
	payload, err := json.Marshal(gate.NoticeEmail{To: to, Namespace: "team", Account: "photos", ItemID: uuid.MustParse("0199f3c2-5f0a-7c4e-8f5e-0d5a6f1b2c3d"), Finding: finding, At: now})
	must(t, err)
	return work.Task{Kind: gate.NoticeWork, Key: uuid.Must(uuid.NewV7()), Payload: payload, Attempt: 1}
}

func TestNotices_SayWhatWasRejected(t *testing.T) {
	t.Parallel()
	server := (&server{}).start(t)
	notices := mail.Notices{Sender: newSender(t, config(server.port)).Sender}
	for finding, want := range map[string]string{"Test.<Name>": "The malware check found", "": "It could not be checked for malware"} {
		must(t, notices.Work(t.Context(), notice(t, address, finding)))
		sent := server.accepted()
		header, text, html := read(t, sent[len(sent)-1].data)
		if !strings.Contains(header.Get("Subject"), "=?") && !strings.Contains(header.Get("Subject"), "rejected") || header.Get("Auto-Submitted") != "auto-generated" {
			t.Errorf("the header is %v", header)
		}
		for _, part := range []string{text, html} {
			for _, expected := range []string{want, "photos", "team", "media.example.org", "0199f3c2-5f0a-7c4e-8f5e-0d5a6f1b2c3d", "21 Nov 2026, 14:05 UTC"} {
				if !strings.Contains(part, expected) {
					t.Errorf("%q is missing in %s", expected, part)
				}
			}
		}
		if finding != "" && (!strings.Contains(text, finding) || strings.Contains(html, "<Name>") || !strings.Contains(html, "Test.&lt;Name&gt;")) {
			t.Errorf("the finding is not shown as it is: %s %s", text, html)
		}
	}
}

func TestNotices_ThatCannotBeSentAreDiscarded(t *testing.T) {
	t.Parallel()
	server := (&server{}).start(t)
	notices := mail.Notices{Sender: newSender(t, config(server.port)).Sender}
	broken := notice(t, address, "x")
	broken.Payload = []byte("{")
	for what, task := range map[string]work.Task{"a payload": broken, "a recipient": notice(t, "ana.lopez", "x")} {
		if err := notices.Work(t.Context(), task); !isDiscarded(err) {
			t.Errorf("%s that cannot be used: %v", what, err)
		}
	}
	if len(server.accepted()) != 0 {
		t.Error("something was sent")
	}
}
