package mail

import (
	"context"
	"time"

	"mediastack.dev/runtime/oauth"
)

// Queue is the queue of outgoing e-mails that all replicas share. oauth.Service implements it.
type Queue interface {
	// LeaseEmails returns at most limit e-mails that are due, oldest first, and fewer only if no
	// others are due or together with an error. A leased e-mail becomes due again when its
	// lease ends.
	LeaseEmails(ctx context.Context, limit int, lease time.Duration) ([]oauth.LoginEmail, error)
	// AckEmail deletes an e-mail that was delivered or never can be.
	AckEmail(ctx context.Context, id int64) error
	// NackEmail ends the lease; the e-mail becomes due at the given time.
	NackEmail(ctx context.Context, id int64, at time.Time) error
	// EmailQueued returns a channel that receives after this process has queued an e-mail.
	// It has a buffer of one: several e-mails may cause one notification.
	EmailQueued() <-chan struct{}
}
