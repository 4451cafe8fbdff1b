package mail_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/approval"
	"mediastack.dev/runtime/internal/mail"
	"mediastack.dev/runtime/work"
)

func TestApprovals_LeadToThePage(t *testing.T) {
	t.Parallel()
	server := (&server{}).start(t)
	approvals := mail.Approvals{Sender: newSender(t, config(server.port)).Sender}
	id := uuid.MustParse("0199f3c2-5f0a-7c4e-8f5e-0d5a6f1b2c3d")
	payload, err := json.Marshal(approval.Email{To: address, Namespace: "team", Account: "photos", ApprovalID: id, At: now, Until: now.Add(24 * time.Hour)})
	must(t, err)
	must(t, approvals.Work(t.Context(), work.Task{Kind: approval.EmailWork, Key: uuid.Must(uuid.NewV7()), Payload: payload, Attempt: 1}))
	sent := server.accepted()
	header, text, html := read(t, sent[len(sent)-1].data)
	if !strings.Contains(strings.ReplaceAll(header.Get("Subject"), "_", " "), "waits for your decision") {
		t.Errorf("the header is %v", header)
	}
	for _, part := range []string{text, html} {
		for _, expected := range []string{"photos", "team", "https://media.example.org/account/approval?approval=" + id.String(), "21 Nov 2026, 14:05 UTC", "22 Nov 2026, 14:05 UTC", "Deny"} {
			if !strings.Contains(part, expected) {
				t.Errorf("%q is missing in %s", expected, part)
			}
		}
	}
	if err := approvals.Work(t.Context(), work.Task{Kind: approval.EmailWork, Payload: []byte("{")}); !isDiscarded(err) {
		t.Errorf("a payload that cannot be used: %v", err)
	}
}
