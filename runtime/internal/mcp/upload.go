package mcp

import (
	"context"
	"errors"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/auth"
	"mediastack.dev/runtime/media"
)

// uploadMedia creates a draft from the file of the request. The file has been received, and is
// stored only if all arguments are valid.
func (a *API) uploadMedia(ctx context.Context, _ auth.Identity, args *arguments) (any, error) {
	named := args.text(fileArgument)
	fields := media.Fields{
		FileName: args.text("fileName"), MimeType: args.text("mimeType"),
		Caption: args.text("caption"), Access: args.access("access"), Group: args.text("group"),
	}
	if args.err != nil {
		return nil, args.err
	}
	switch {
	case fields.FileName == "":
		return nil, fault.New(fault.Invalid, "fileName is empty: send a name with its extension, such as photo.jpg")
	case fields.MimeType == "":
		return nil, fault.New(fault.Invalid, "mimeType is empty: send a MIME type such as image/jpeg")
	}
	if err := fields.Validate(); err != nil {
		return nil, err
	}
	upload, err := stateFromContext(ctx).file(named)
	if err != nil {
		return nil, a.describeUploadError(err)
	}
	defer upload.Close(ctx)
	upload.DeclareType(fields.MimeType)
	item, err := upload.Commit(ctx, fields)
	if err != nil {
		return nil, a.describeUploadError(err)
	}
	return uploaded{MediaID: item.ID.String()}, nil
}

type uploaded struct {
	MediaID string `json:"mediaId"`
}

// describeUploadError adds the alternative to the fault of a file that is too large.
func (a *API) describeUploadError(err error) error {
	if errors.Is(err, errFileTooLarge) {
		return fault.Wrap(err, fault.TooLarge, "the file is larger than %d bytes (10 MB), the maximum of %s; nothing was stored. Don't split it: %s", maxFile, account.UploadMedia, a.largeFileHint())
	}
	return err
}
