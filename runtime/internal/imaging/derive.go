package imaging

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"mediastack.dev/runtime/imageformat"
	"mediastack.dev/runtime/internal/imaging/protocol"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/tracing"
	"mediastack.dev/runtime/upload"
)

var _ upload.Deriver = (*Pool)(nil)

// thumbnailQuality keeps thumbnails, which are small, crisp.
const thumbnailQuality = 80

// convertedTypes are the types that are converted to WebP.
var convertedTypes = map[string]bool{"image/jpeg": true, "image/png": true}

// Derive waits for a worker and returns what the image is and its derivatives, with an error if some
// are missing: a *RejectedError, or one that wraps ErrWorker, ErrSource, ErrClosed or ctx's error.
func (p *Pool) Derive(ctx context.Context, request media.ImageJob) (media.Facts, []media.Derivative, error) {
	if !p.Handles(request.MimeType, request.Bytes) {
		return media.Facts{}, nil, &RejectedError{Reason: protocol.ReasonFormat.String(), Text: "the type or the size is not supported"}
	}
	ctx, span := tracing.Start(ctx, "images derive", trace.WithAttributes(attribute.String("mediastack.media_type", request.MimeType), attribute.Int64("mediastack.bytes", request.Bytes)))
	defer span.End()
	j := &job{item: request.ItemID, account: request.AccountID, purpose: forUpload, bytes: request.Bytes, slot: request.Slot, source: request.Source, outputs: derivativeOutputs(request), location: request.KeepLocation}
	if request.Requested {
		j.purpose = onDemand
	}
	err := p.do(ctx, j)
	if errors.Is(err, ErrWorker) && !errors.Is(err, errStart) {
		err = errors.Join(media.ErrWorkerFailed, err)
	}
	made, missing := derivatives(j.made)
	if err == nil {
		err = missing
	}
	if err != nil {
		tracing.Fail(span, resultLabel(err, ctx.Err() != nil))
	}
	if len(made) == 0 {
		return media.Facts{}, nil, err
	}
	return j.made.facts, made, err
}

// derivativeOutputs returns the outputs of the derivatives that the settings of an upload ask for.
func derivativeOutputs(request media.ImageJob) []protocol.Output {
	s := request.Settings
	outputs := []protocol.Output{{
		Width: clampSide(s.ThumbnailWidth), Height: clampSide(s.ThumbnailHeight), Encoding: imageformat.WebP, Quality: thumbnailQuality, Flags: protocol.Thumbnail,
	}}
	if s.UseWebP && convertedTypes[request.MimeType] {
		outputs = append(outputs, protocol.Output{Encoding: imageformat.WebP, Quality: uint8(min(max(s.WebPOutputQuality, 0), 100)), Flags: protocol.Conversion})
	}
	return outputs
}

func clampSide(length int) uint16 { return uint16(min(max(length, 1), 1<<14-1)) }

// derivatives returns the derivatives that were made, in the order of derivativeOutputs, and why another one is missing. One
// that does not apply to the file is not missing.
func derivatives(made result) (all []media.Derivative, missing error) {
	variants := [...]media.Variant{media.Thumbnail, media.WebP}
	for i, picture := range made.pictures {
		var rejected *RejectedError
		switch {
		case picture.Err == nil:
			all = append(all, media.Derivative{Variant: variants[i], MimeType: picture.MimeType, Data: picture.Data})
		case notApplicable(picture.Err):
		case missing == nil && errors.As(picture.Err, &rejected):
			missing = &RejectedError{Variant: variants[i], Reason: rejected.Reason, Text: rejected.Text}
		}
	}
	return all, missing
}
