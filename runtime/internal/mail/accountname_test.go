package mail_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/uuid"

	"mediastack.dev/runtime/approval"
	"mediastack.dev/runtime/gate"
	"mediastack.dev/runtime/internal/mail"
	"mediastack.dev/runtime/work"
)

// Owners were told of "photos in team", by the names of a resource that they may have never seen. Who creates an account chooses its display
// name, and who gets the e-mails: none of them advertises another site.
func TestEmails_NameTheAccountAsItsOwnersKnowIt(t *testing.T) {
	t.Parallel()
	server := (&server{}).start(t)
	sender := newSender(t, config(server.port)).Sender
	for displayName, want := range map[string]string{
		"Studio López": "the account Studio López on", "Dr. No & Co. 2.0": "the account Dr. No & Co. 2.0 on", "two\u2028lines  of\u202etext": "the account two lines of text on",
		"": "the account photos in team on", "\u200b \u202e": "the account photos in team on", strings.Repeat("x", 101): "the account photos in team on",
		"Pay at https://evil.test": "the account photos in team on", "evil.test has news": "the account photos in team on", "WWW evil": "the account photos in team on",
		"ask a@evil": "the account photos in team on", "bücher.example": "the account photos in team on",
	} {
		reminder, err := json.Marshal(approval.Email{To: address, Namespace: "team", Account: "photos", DisplayName: displayName, At: now, Until: now})
		must(t, err)
		rejected, err := json.Marshal(gate.NoticeEmail{To: address, Namespace: "team", Account: "photos", DisplayName: displayName, At: now})
		must(t, err)
		must(t, mail.Approvals{Sender: sender}.Work(t.Context(), work.Task{Kind: approval.EmailWork, Key: uuid.New(), Payload: reminder, Attempt: 1}))
		must(t, mail.Notices{Sender: sender}.Work(t.Context(), work.Task{Kind: gate.NoticeWork, Key: uuid.New(), Payload: rejected, Attempt: 1}))
		sent := server.accepted()
		for _, email := range sent[len(sent)-2:] {
			_, text, html := read(t, email.data)
			flat := strings.NewReplacer("<strong>", "", "</strong>", "", "&amp;", "&").Replace(html)
			if !strings.Contains(text, want) || !strings.Contains(flat, want) || strings.Contains(text+html, "evil") {
				t.Errorf("%q is named otherwise than %q: %s %s", displayName, want, text, html)
			}
		}
	}
}
