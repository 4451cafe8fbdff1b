package imaging

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/imageformat"
	"mediastack.dev/runtime/internal/imaging/protocol"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/settings"
	"mediastack.dev/runtime/tracing"
)

var _ media.Renderer = (*Pool)(nil)

// focuses are the values of settings and their counterparts in the protocol.
var focuses = map[settings.Focus]protocol.Focus{"": protocol.FocusCentre, settings.Centre: protocol.FocusCentre, settings.Attention: protocol.FocusAttention,
	settings.Entropy: protocol.FocusEntropy, settings.Point: protocol.FocusPoint}

// ReserveRender takes a slot of the queue of renditions. It returns a Busy fault if none is free.
func (p *Pool) ReserveRender(account uuid.UUID) (media.ImageSlot, error) {
	if p.renderSlots.TryAcquire(account) != nil {
		return nil, p.busy()
	}
	return &queueSlot{limiter: p.renderSlots, account: account}, nil
}

// Render makes the pictures of recipes, as media.Renderer says.
func (p *Pool) Render(ctx context.Context, request media.RenderJob) ([]media.Picture, error) {
	outputs, err := recipeOutputs(request.Recipes)
	if err != nil {
		return nil, err
	}
	if !p.Handles(request.MimeType, request.Bytes) {
		return nil, fault.New(fault.UnsupportedType, "no pictures are made of a file of this type or size")
	}
	j := &job{item: request.ItemID, account: request.AccountID, purpose: onDemand, bytes: request.Bytes, slot: request.Slot, taken: request.Taken, source: request.Source, outputs: outputs, maxBytes: request.MaxBytes}
	if request.Purpose == media.Eager {
		j.purpose = eager
	}
	if j.slot == nil && j.purpose == onDemand {
		slot, err := p.ReserveRender(request.AccountID)
		if err != nil {
			return nil, err
		}
		defer slot.Release()
		j.slot = slot
	}
	ctx, span := tracing.Start(ctx, "images render", trace.WithAttributes(attribute.String("mediastack.media_type", request.MimeType),
		attribute.Int64("mediastack.bytes", request.Bytes), attribute.Int("mediastack.recipes", len(outputs))))
	defer span.End()
	err = p.do(ctx, j)
	if err != nil {
		tracing.Fail(span, resultLabel(err, ctx.Err() != nil))
	}
	return pictures(ctx, j, err)
}

// pictures returns those of a job, or the error that is that of all of them.
func pictures(ctx context.Context, j *job, err error) ([]media.Picture, error) {
	failure := renderError(ctx, err)
	if errors.Is(failure, media.ErrWorkerFailed) && !errors.Is(err, errTimeout) && onlyOptional(j.outputs) {
		failure = fault.Wrap(errors.Join(media.ErrOtherFormat, failure), fault.Unavailable, "the picture could not be made as %s now", j.outputs[0].Encoding)
	}
	if failure != nil && j.made.complete() == 0 {
		return nil, failure
	}
	pictures := make([]media.Picture, len(j.outputs))
	for i := range pictures {
		switch {
		case i >= len(j.made.pictures):
			pictures[i].Err = failure
		case j.made.pictures[i].Err != nil:
			pictures[i].Err = renderError(ctx, j.made.pictures[i].Err)
		default:
			pictures[i] = j.made.pictures[i]
		}
	}
	return pictures, nil
}

// onlyOptional reports whether the formats of all outputs are optional: only of such a job can it be the encoder on which a worker died.
// A job that took too long decodes as long for another format.
func onlyOptional(outputs []protocol.Output) bool {
	return !slices.ContainsFunc(outputs, func(o protocol.Output) bool { return !o.Encoding.Optional() })
}

// renderError returns the error of a job, or of one picture, as media.Renderer says.
func renderError(ctx context.Context, err error) error {
	var rejected *RejectedError
	var known *fault.Error
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("render pictures: %w", ctx.Err())
	case errors.As(err, &rejected) && rejected.Reason == protocol.ReasonTooLarge.String():
		return fault.Wrap(errors.Join(media.ErrNotOffered, err), fault.UnsupportedType, "the picture is too large for its format")
	case errors.As(err, &rejected) && (rejected.Reason == protocol.ReasonEncode.String() || rejected.Reason == protocol.ReasonMemory.String()):
		return fault.Wrap(errors.Join(media.ErrOtherFormat, err), fault.UnsupportedType, "the picture could not be made in this format")
	case errors.As(err, &rejected) && rejected.Reason == protocol.ReasonOutput.String():
		return fault.Wrap(err, fault.UnsupportedType, "the picture has too many bytes")
	case errors.As(err, &rejected):
		return fault.Wrap(err, fault.UnsupportedType, "no picture can be made of this file")
	case errors.Is(err, ErrSource) && errors.As(err, &known):
		return err
	case errors.Is(err, ErrWorker) && !errors.Is(err, errStart):
		err = errors.Join(media.ErrWorkerFailed, err)
	}
	return fault.Wrap(err, fault.Unavailable, "the picture could not be made now")
}

// recipeOutputs returns the outputs of recipes. It returns an Invalid fault for recipes that break a rule.
func recipeOutputs(recipes []media.Recipe) ([]protocol.Output, error) {
	if len(recipes) < 1 || len(recipes) > media.MaxRecipes {
		return nil, fault.New(fault.Invalid, "%d recipes; a job has from 1 to %d", len(recipes), media.MaxRecipes)
	}
	outputs := make([]protocol.Output, len(recipes))
	for i, r := range recipes {
		const maxSide, thousand = 1<<14 - 1, 1000
		fit, knownFit := media.FitOf(r.Fit)
		focus, knownFocus := focuses[r.Focus]
		encoding, knownEncoding := imageformat.ByName(string(r.Format))
		switch {
		case !knownFit || !knownFocus || !knownEncoding,
			r.Width < 0 || r.Width > maxSide || r.Height < 0 || r.Height > maxSide || r.Width+r.Height == 0,
			r.PointX < 0 || r.PointX > thousand || r.PointY < 0 || r.PointY > thousand, r.Quality < 0 || r.Quality > 100,
			r.MaxBytes != 0 && (r.MaxBytes < protocol.MinFitted || r.MaxBytes > maxOutput || encoding != imageformat.JPEG):
			return nil, fault.New(fault.Invalid, "a recipe with invalid values: %+v", r)
		}
		if r.Quality == 0 {
			r.Quality = encoding.DefaultQuality()
		}
		o := protocol.Output{Width: uint16(r.Width), Height: uint16(r.Height), Fit: fit, Focus: focus, PointX: uint16(r.PointX), PointY: uint16(r.PointY),
			Encoding: encoding, Quality: uint8(r.Quality), Background: r.Background, MaxBytes: uint32(r.MaxBytes)} //nolint:gosec // checked above
		if r.Sharpen {
			o.Flags |= protocol.Sharpen
		}
		if r.Animated && encoding.Animated() {
			o.Flags |= protocol.Animated
		}
		outputs[i] = o
	}
	return outputs, nil
}
