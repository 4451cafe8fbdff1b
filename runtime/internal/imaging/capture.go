package imaging

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"mediastack.dev/runtime/capture"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/tracing"
)

var _ media.CaptureReader = (*Pool)(nil)

// ReadsCaptures reports whether there are workers.
func (p *Pool) ReadsCaptures() bool { return p.cfg.Enabled }

// ReadCapture asks a worker what a file says of how it was made, as media.CaptureReader says. Nobody waits for it: the job gets what other
// jobs leave of the workers.
func (p *Pool) ReadCapture(ctx context.Context, request media.CaptureJob) (capture.Capture, error) {
	if !p.cfg.Enabled || request.Bytes <= 0 {
		return capture.Capture{}, nil
	}
	ctx, span := tracing.Start(ctx, "images read capture", trace.WithAttributes(attribute.Int64("mediastack.bytes", request.Bytes)))
	defer span.End()
	j := &job{item: request.ItemID, account: request.AccountID, purpose: eager, bytes: request.Bytes, source: request.Source, location: request.KeepLocation}
	err := p.do(ctx, j)
	if err != nil {
		tracing.Fail(span, resultLabel(err, ctx.Err() != nil))
	}
	if errors.Is(err, ErrWorker) && !errors.Is(err, errStart) {
		err = errors.Join(media.ErrWorkerFailed, err)
	}
	return j.made.facts.Capture, err
}
