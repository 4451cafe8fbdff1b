package mcp

import (
	"context"
	"strings"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/handover"
	"mediastack.dev/runtime/internal/auth"
	"mediastack.dev/runtime/internal/httpapi"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/upload"
)

// handoverTools returns the tools by which an assistant has a person hand a file over, unless the installation has no page for that.
func (a *API) handoverTools(v view) []tool {
	if a.deps.Handover == nil {
		return nil
	}
	uri := schema{Type: "string", Format: "uri"}
	state := outputObject(
		prop("uploadId", uuidString(), "Id of the request."),
		prop("state", enum(string(handover.Waiting), string(handover.Uploading), string(handover.Uploaded), string(handover.Rejected), string(handover.Deleted), string(handover.Expired)), "waiting and uploading may still change."),
		prop("message", str(), "What the state means, and what to do next."),
		prop("expiresAt", dateTime(), "Until when the user can begin."),
	)
	state.Properties = append(state.Properties,
		prop("received", intMin(0), "Bytes that have arrived, of a resumable upload; absent otherwise."),
		prop("total", intMin(0), "Bytes of the whole file, of a resumable upload; absent while it is not known."),
		prop("mediaId", uuidString(), "Id of the item, once the file is uploaded."),
		prop("originalFileName", str(), "Name of the file, once it is uploaded."),
		prop("mimeType", str(), "MIME type of the file, once it is uploaded."),
		prop("size", intMin(0), "Bytes of the file, once it is uploaded."),
		prop("temp", constant(true), "Set while the item is a draft; absent otherwise."))
	return []tool{{
		operation: account.RequestUpload, title: "Request a file from the user",
		description: "Asks the user for one file: returns the address of a page on which anyone who has it can hand over a file of any size, once, without a login. Use it when the file is on the user's device, or too large for " + v.orTool(account.UploadMedia) + ". " +
			"Give `page` to the user as a link" + v.when(account.GetUpload, "; when the user has answered, or at once, call get_upload with `uploadId`, which waits for the file") + ". " +
			"If you can send requests yourself, POST the file to `uploadUrl` as multipart/form-data with the part file, or use TUS 1.0.0 at `resumableUrl`; neither needs a header. All three addresses are secret, and one file ends all of them.",
		input: inputObject(nil,
			prop("fileName", str(), "Name that the item gets, with its extension. Leave out to keep the name of the user's file."),
			prop("types", array(str()), "Types that the file may have, such as image/png or video/*; leave out for all. They are held against the bytes of the file."),
			prop("maxBytes", intMin(1), "Maximum size of the file in bytes; leave out for that of the account."),
			prop("caption", maxLen(media.MaxCaption), "Text that describes the file. The page shows it to the user."),
			prop("group", maxLen(media.MaxGroup), "Label of the item, like a folder."),
			prop("seal", withDefault(boolean(), false), "Seal the item as soon as the file is complete"+v.when(account.SealMedia, ", so that seal_media is not needed")+"."),
		),
		output: outputObject(
			prop("page", uri, "Page for the user."),
			prop("uploadUrl", uri, "URL for POST as multipart/form-data."),
			prop("resumableUrl", uri, "URL for TUS 1.0.0."),
			prop("expiresAt", dateTime(), "Until when an upload can begin."),
			prop("uploadId", uuidString(), "Id of the request"+v.when(account.GetUpload, ", for get_upload")+"."),
		),
		run: a.requestUpload,
	}, {
		operation: account.GetUpload, title: "Get a file that was requested",
		description: "Reports whether the user has handed the file over, and waits for it up to 20 seconds. Call it again while state is waiting or uploading, a few times; then ask the user. uploaded has the mediaId" + v.when(account.SealMedia, ": call seal_media with it, unless seal was true") + ".",
		input:       inputObject([]string{"uploadId"}, prop("uploadId", uuidString(), idText("Id of the request", v.either(account.RequestUpload)))),
		output:      state, run: a.getUpload,
	}}
}

// orTool returns the name of a tool that the caller has, or what stands for it.
func (v view) orTool(one account.Operation) string {
	if v.offers(one) {
		return string(one)
	}
	return "a tool"
}

// requestedUpload is the result of request_upload.
type requestedUpload struct {
	Page         string    `json:"page"`
	UploadURL    string    `json:"uploadUrl"`
	ResumableURL string    `json:"resumableUrl"`
	ExpiresAt    time.Time `json:"expiresAt"`
	UploadID     uuid.UUID `json:"uploadId"`
}

func (a *API) requestUpload(ctx context.Context, identity auth.Identity, args *arguments) (any, error) {
	// Private, so that nobody who has the address publishes anything.
	wanted := upload.Capability{FileName: args.text("fileName"), Caption: args.text("caption"), Group: args.text("group"), Access: media.Private}
	types := read[[]string](args, "types", "a list of strings")
	if most := args.integer64("maxBytes"); most != nil {
		if wanted.MaxBytes = *most; *most < 1 {
			return nil, fault.New(fault.Invalid, "maxBytes must be 1 or more")
		}
	}
	if seal := args.boolean("seal"); seal != nil {
		wanted.Seal = *seal
	}
	if args.err != nil {
		return nil, args.err
	}
	if types != nil {
		if len(*types) == 0 {
			return nil, upload.ErrCapabilityTypes
		}
		for _, one := range *types {
			wanted.Types = append(wanted.Types, strings.ToLower(one))
		}
	}
	if wanted.FileName != "" {
		wanted.FileName = media.CleanFileName(wanted.FileName)
	}
	if limit := identity.Account.MaxUploadSize; wanted.MaxBytes > limit {
		return nil, fault.New(fault.Invalid, "maxBytes must be at most %d, the maximum of this account", limit)
	}
	request, token, err := a.deps.Auth.IssueRequest(ctx, identity, wanted, a.deps.Handover.TTL())
	if err == nil {
		err = a.deps.Handover.Create(ctx, request)
	}
	if err != nil {
		return nil, err
	}
	page := a.base + handover.PagePath + token.Reveal()
	return requestedUpload{Page: page, UploadURL: page + handover.FileSuffix, ResumableURL: page + handover.ResumableSuffix, ExpiresAt: request.Capability.ExpiresAt.UTC(), UploadID: request.ID}, nil
}

// uploadState is the result of get_upload.
type uploadState struct {
	UploadID  uuid.UUID      `json:"uploadId"`
	State     handover.State `json:"state"`
	Message   string         `json:"message"`
	ExpiresAt time.Time      `json:"expiresAt"`
	Received  *int64         `json:"received,omitempty"`
	Total     int64          `json:"total,omitempty"`
	MediaID   *uuid.UUID     `json:"mediaId,omitempty"`
	FileName  string         `json:"originalFileName,omitempty"`
	MimeType  string         `json:"mimeType,omitempty"`
	Size      *int64         `json:"size,omitempty"`
	Temp      bool           `json:"temp,omitempty"`
}

func (a *API) getUpload(ctx context.Context, identity auth.Identity, args *arguments) (any, error) {
	id := args.idFrom("uploadId", string(account.RequestUpload))
	if args.err != nil {
		return nil, args.err
	}
	connection := account.ConnectionOfKey(identity.Key.ID)
	if identity.GrantID != uuid.Nil {
		connection = account.ConnectionOfGrant(identity.GrantID)
	}
	found, waited, err := a.deps.Handover.Await(ctx, identity.Principal, connection, id)
	httpapi.FromContext(ctx).Waited += waited
	if err == nil {
		err = a.deps.Auth.CheckConnection(ctx, identity) // it may have ended since the call began
	}
	if err != nil {
		return nil, err
	}
	result := uploadState{UploadID: found.ID, State: found.State, ExpiresAt: found.Capability.ExpiresAt.UTC()}
	v := a.viewOf(identity)
	switch found.State {
	case handover.Waiting:
		result.Message = "Nobody has handed the file over. Ask the user to open the page, then call get_upload again."
	case handover.Uploading:
		result.Message = "The file is on its way. Call get_upload again."
		if found.Resumable {
			result.Received, result.Total = &found.Received, found.Length
		}
	case handover.Rejected:
		result.Message = "The scanner of the account has found something in the file: it is not stored. Tell the user. Call request_upload for another file."
	case handover.Deleted:
		result.Message = "The file was uploaded, and is deleted since."
	case handover.Expired:
		result.Message = "Nobody has handed the file over in time. Call request_upload for a new page."
	case handover.Uploaded:
		item, err := a.deps.Items.Get(ctx, identity.Principal, found.ItemID)
		if fault.Is(err, fault.NotFound) { // deleted meanwhile
			result.State, result.Message = handover.Deleted, "The file was uploaded, and is deleted since."
			return result, nil
		}
		if err != nil {
			return nil, err
		}
		document := a.documents(ctx, identity).documentOf(a.documents(ctx, identity).Item(item))
		result.MediaID, result.FileName, result.MimeType, result.Size, result.Temp = &document.MediaID, document.OriginalFileName, document.MimeType, &document.Size, document.Temp
		result.Message = document.Message
		if result.Message == "" && document.Temp {
			result.Message = v.draftsEnd() + " after " + a.draftLifetime() + "."
		} else if result.Message == "" {
			result.Message = "The file is stored."
		}
	}
	return result, nil
}

// downloads returns what the toolset handover adds to get_media: what the address of a private file is for.
func downloads() *extension {
	return &extension{toolsets: []string{account.ToolsetHandover},
		description: " To hand a file over to the user, give the user `file` as a link: it opens in a browser without a login, also of a private item, whose link ends after a time. Don't read large files yourself."}
}
