package mail

import (
	"context"
	"time"

	"mediastack.dev/runtime/oauth"
)

// Queue is where letters wait. All replicas share one.
type Queue interface {
	// Claim takes letters that are due, the oldest first and at most so many; fewer only
	// when no other is due, or beside an error. For the time of the lease no other Claim
	// gets them; after it they are due again.
	Claim(ctx context.Context, most int, lease time.Duration) ([]oauth.Letter, error)
	// Sent removes a letter that needs nothing more: the mail server has it, or nobody
	// ever will.
	Sent(ctx context.Context, id int64) error
	// Retry ends the lease; the letter is due at that time.
	Retry(ctx context.Context, id int64, at time.Time) error
	// Waiting is told when this process put a letter in. It needs room for one only,
	// and nobody has to be told twice.
	Waiting() <-chan struct{}
}
