package mail

import (
	"context"
	"encoding/json"
	"errors"

	"mediastack.dev/runtime/approval"
	"mediastack.dev/runtime/oauth"
	"mediastack.dev/runtime/work"
)

// Approvals is a Sender of e-mails about what waits for an owner: the worker of approval.EmailWork.
type Approvals struct{ *Sender }

// Work implements work.Worker: it sends the e-mail of a task.
func (s Approvals) Work(ctx context.Context, task work.Task) error {
	var email approval.Email
	if err := json.Unmarshal(task.Payload, &email); err != nil {
		return work.Discard(errors.New("the payload of an e-mail about what waits for an owner cannot be read"))
	}
	about := oauth.LoginEmail{To: email.To} // for the masks of addresses in the log
	message, err := s.composer.composeApproval(task.Key, email, s.now())
	if err != nil {
		return work.Discard(failed("compose an e-mail", err, about))
	}
	return s.deliver(ctx, task, message, about)
}
