package approval

import (
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/work"
)

// EmailWork is the kind of the tasks that tell one owner by e-mail that something waits. The payload is the JSON of an Email.
const EmailWork work.Kind = "approval_email"

// EmailPause is for how long the owners of an account get no other such e-mail.
const EmailPause = 10 * time.Minute

// Email is an e-mail about what waits for an owner. It has no name of an application, nor one of a file: others choose them, and could send texts
// by them.
type Email struct {
	To        string `json:"to"`
	Namespace string `json:"namespace"`
	Account   string `json:"account"`
	// DisplayName is the name of the account as owners see it; empty = it has none.
	DisplayName string    `json:"displayName,omitempty"`
	ApprovalID  uuid.UUID `json:"approval"`
	At          time.Time `json:"at"`
	Until       time.Time `json:"until"`
}
