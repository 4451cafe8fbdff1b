package mcp

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/auth"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/rendition"
)

// Views makes pictures for models. rendition.Service implements it.
type Views interface {
	View(ctx context.Context, item media.Item, owner media.Owner, size rendition.ViewSize) (rendition.View, error)
}

// pictured is the output of a tool with a JPEG, which follows the text.
type pictured struct {
	document any
	jpeg     []byte
}

// viewed is the text of view_media. Several hosts drop the picture, or show it to the model late: the text says what is known without it.
type viewed struct {
	MediaID       uuid.UUID  `json:"mediaId"`
	FileName      string     `json:"fileName"`
	MimeType      string     `json:"mimeType"`
	Width         int        `json:"width,omitempty"`
	Height        int        `json:"height,omitempty"`
	DominantColor string     `json:"dominantColor,omitempty"`
	Caption       string     `json:"caption"`
	Group         string     `json:"group,omitempty"`
	Temp          bool       `json:"temp,omitempty"`
	CreatedAt     *time.Time `json:"createdAt"`
	CapturedAt    string     `json:"capturedAt,omitempty"`
	// Shown is absent if no picture follows.
	Shown *shown `json:"shown,omitempty"`
	Note  string `json:"note"`
}

// shown is the size of the picture in pixels.
type shown struct {
	Width  int `json:"width"`
	Height int `json:"height"`
}

// seeTools returns the tool of the toolset see, if the installation has image workers.
func (a *API) seeTools(v view) []tool {
	if a.deps.Views == nil {
		return nil
	}
	output := outputObject(
		prop("mediaId", uuidString(), "Id of the item."),
		prop("fileName", str(), "Name of the uploaded file."),
		prop("mimeType", str(), "MIME type of the file."),
		prop("caption", str(), "Text that describes the file; empty when there is none."),
		prop("createdAt", dateTime(), "When the upload was complete."),
		prop("note", str(), "Whether a picture follows, and what to do."),
	)
	size := outputObject(prop("width", intMin(1), "Its width in pixels."), prop("height", intMin(1), "Its height in pixels."))
	output.Properties = append(append(output.Properties, pixels()...),
		prop("dominantColor", str(), "Color of the largest part of an image, as #rrggbb; absent when it is not known."),
		prop("group", str(), "Label of the item; absent when it has none."),
		prop("temp", constant(true), "Set while the item is a draft; absent once it is sealed."),
		prop("capturedAt", str(), "When a photo or a recording was made, as its file says it; absent when that is not known."),
		prop("shown", size, "Size of the picture that follows; absent when none does."),
	)
	return []tool{{
		operation: account.ViewMedia, title: "Look at an image",
		description: "Shows one image, sealed or draft: what is known of it as text, and then a JPEG of it. Use it to describe, compare or check what an image shows. " +
			sizeHelp() + " Only the first frame of an animation is shown, and transparent parts are gray. Of a file that is no image, only the text is returned." +
			v.when(account.UpdateMedia, " To keep a description, call update_media with caption."),
		input: inputObject([]string{"mediaId"},
			prop("mediaId", uuidString(), idText("Id of the item", v.itemSources())),
			prop("size", withDefault(enum(string(rendition.ViewSmall), string(rendition.ViewLarge)), string(rendition.ViewSmall)), "How large the picture is. Begin with small; large is for text in an image and for details.")),
		output: output, run: a.viewMedia,
	}}
}

// sizeHelp says what the sizes cost a model: one token for each patch of 28 x 28 pixels.
func sizeHelp() string {
	patches := func(size rendition.ViewSize) (side, count int) {
		side, _ = size.Bounds()
		const patch = 28
		across := (side + patch - 1) / patch
		return side, across * across
	}
	small, cheap := patches(rendition.ViewSmall)
	large, dear := patches(rendition.ViewLarge)
	return fmt.Sprintf("small has up to %d pixels a side and costs up to about %d tokens, large up to %d pixels and %d tokens.", small, cheap, large, dear)
}

func (a *API) viewMedia(ctx context.Context, identity auth.Identity, args *arguments) (any, error) {
	id, size := args.id("mediaId"), rendition.ViewSmall
	if named := args.text("size"); named != "" {
		size = rendition.ViewSize(named)
	}
	if _, bytes := size.Bounds(); args.err == nil && bytes == 0 {
		args.err = fault.New(fault.Invalid, "size must be %s or %s", rendition.ViewSmall, rendition.ViewLarge)
	}
	if args.err != nil {
		return nil, args.err
	}
	found, err := a.deps.Items.Get(ctx, identity.Principal, id)
	if err != nil {
		return nil, err
	}
	of := identity.Account
	view, err := a.deps.Views.View(ctx, found, media.Owner{Namespace: of.Namespace, Name: of.Name, Bucket: of.Bucket}, size)
	if fault.Is(err, fault.UnsupportedType) {
		return a.describe(ctx, identity, found, "No picture follows: "+fault.From(err).Public+". Don't describe what the file looks like."), nil
	}
	if err != nil {
		return nil, err
	}
	// Meanwhile, which may be a minute, it may have been deleted, changed or rejected, and the connection may have ended.
	if err = a.deps.Auth.CheckConnection(ctx, identity); err != nil {
		return nil, err
	}
	if found, err = a.deps.Items.Get(ctx, identity.Principal, id); err == nil {
		err = found.Readable()
	}
	if err != nil {
		return nil, err
	}
	document := a.describe(ctx, identity, found, "An image follows. If you can't see it, say so and don't describe it."+a.viewOf(identity).when(account.UpdateMedia, " To keep a description of it, call update_media with caption."))
	document.Shown = &shown{view.Width, view.Height}
	return pictured{document, view.Data}, nil
}

// describe returns the text of view_media.
func (a *API) describe(ctx context.Context, identity auth.Identity, of media.Item, note string) viewed {
	full := a.documents(ctx, identity).Item(of)
	return viewed{MediaID: full.MediaId, FileName: full.OriginalFileName, MimeType: full.MimeType, Width: full.Width, Height: full.Height, DominantColor: of.Facts.DominantColor,
		Caption: full.Caption, Group: full.Group, Temp: full.Temp, CreatedAt: seconds(&full.CreatedAt), CapturedAt: full.CapturedAt, Note: note}
}

// withNext adds to the results of a search what to do with them. Without view_media they are as they were.
func (v view) withNext(output schema) schema {
	if v.offers(account.ViewMedia) {
		output.Properties = append(output.Properties, prop("hint", str(), "What to do with these items; absent when there is none."))
	}
	return output
}

// describeHelp says how what has no caption is described.
func (v view) describeHelp() string {
	if v.offers(account.SearchMedia) && v.offers(account.UpdateMedia) {
		return " To describe what has no caption: call search_media with lacks caption, view_media for each, and update_media with a caption of what you saw."
	}
	return ""
}

// nextOf returns what to do with the results of a search; empty if there are none, or the caller cannot look at them.
func (v view) nextOf(query media.Query, results int) string {
	if results == 0 || !v.offers(account.ViewMedia) {
		return ""
	}
	if lacks := query.Traits.HasCaption; lacks != nil && !*lacks && v.offers(account.UpdateMedia) {
		hint := "These have no caption. For each that is an image: call view_media, then update_media with a caption of what you saw. Then continue with `next`, or repeat this search without `after`: what has a caption is no longer in it."
		if query.Type == "" {
			// Files that nobody can look at never leave this list, so that a loop over it would have no end.
			hint += " Send type image/* as well: otherwise files that are no images stay in it."
		}
		return hint
	}
	return "To see what an image shows, call view_media with its mediaId."
}
