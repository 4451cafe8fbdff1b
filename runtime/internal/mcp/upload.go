package mcp

import (
	"context"
	"errors"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/api"
	"mediastack.dev/runtime/internal/auth"
	"mediastack.dev/runtime/media"
)

// uploadMedia makes a draft of the file that was in the request. The file has arrived,
// and is stored only when everything else is right.
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
	upload, err := callOf(ctx).file(named)
	if err != nil {
		return nil, a.explained(err)
	}
	defer upload.Close(ctx)
	upload.DeclareType(fields.MimeType)
	item, err := upload.Commit(ctx, fields)
	if err != nil {
		return nil, a.explained(err)
	}
	return uploaded{MediaID: item.ID.String()}, nil
}

type uploaded struct {
	MediaID string `json:"mediaId"`
}

// explained adds to the fault of a file that is too large what to do instead.
func (a *API) explained(err error) error {
	if errors.Is(err, errFileTooLarge) {
		return fault.Wrap(err, fault.TooLarge, "the file is larger than %d bytes (10 MB), the most that %s takes; nothing was stored. Don't cut it up: %s", fileLimit, uploadName, a.largerFiles())
	}
	return err
}

func (a *API) createUploadSignature(_ context.Context, grant auth.Identity, args *arguments) (any, error) {
	group := args.text("group")
	if args.err != nil {
		return nil, args.err
	}
	if err := media.CheckGroup(group); err != nil {
		return nil, err
	}
	return api.Signature{Signature: a.parts.Auth.Sign(grant, group)}, nil
}
