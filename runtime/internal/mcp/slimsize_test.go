package mcp

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/internal/api"
	"mediastack.dev/runtime/internal/httpapi"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/settings"
)

// longURLs are as long as those of an installation.
type longURLs struct{}

func (longURLs) URL(item media.Item, object media.Object, _ settings.Originals) string {
	return fmt.Sprintf("https://media.example.org/files/%s/%s?exp=1772368496&sig=%043d", item.ID, object.Variant, 7)
}
func (u longURLs) FileURL(item media.Item, _ settings.Originals) string {
	return u.URL(item, item.File(), "")
}
func (longURLs) PictureURL(media.Item, string, int, settings.Format) string { return "" }

// idAt returns an id of version 7, as items have them.
func idAt(at time.Time) uuid.UUID {
	id := uuid.NewSHA1(uuid.NameSpaceURL, []byte(at.String()))
	binary.BigEndian.PutUint64(id[:8], uint64(at.UnixMilli())<<16|0x7000|uint64(id[6]&15)<<8|uint64(id[7]))
	return id
}

// library returns 100 items with names, captions and groups as people give them.
func library() []media.Item {
	names := []string{"IMG_%04d.jpg", "DSC0%04d.JPG", "invoice-2026-%02d.pdf", "holiday photo %d.png", "PXL_20260301_%09d.jpg", "screenshot 2026-05-11 at 10.22.%d.png", "report-final-v%d.docx"}
	captions := []string{"Sunset over the harbour with two fishing boats", "", "Team photo at the summer party in Lisbon", "Product shot, front view, white background", "Screenshot of the settings page", "", "Grandma with the children in the garden, June"}
	groups := []string{"holiday-2026", "team", "products/shoes", "", "invoices"}
	var items []media.Item
	for i := range 100 {
		item := media.Item{FileName: fmt.Sprintf(names[i%len(names)], 21+i), Caption: captions[i*3%len(captions)], Group: groups[i%len(groups)], Access: media.Private, Metadata: media.Metadata{"project": "atlas"},
			Facts: media.Facts{Width: 4032, Height: 3024}, CreatedAt: time.Date(2026, 3, 1, 12, 34, 56, 789e6, time.UTC).Add(time.Duration(i) * 3601 * time.Second)}
		item.ID = idAt(item.CreatedAt)
		item.Objects = media.Objects{{Variant: media.Original, Bytes: int64(123_456 + i*7919), MimeType: "image/jpeg"}, {Variant: media.Thumbnail, Bytes: 1000, MimeType: "image/webp"}}
		item.SealedAt = &item.CreatedAt
		items = append(items, item)
	}
	return items
}

// The list of 100 items in testdata/slim_list.json has 6,734 tokens of o200k_base, and 6,930 of the tokenizer that Anthropic has published
// (npm gpt-tokenizer and @anthropic-ai/tokenizer); less than 7,000 are wanted. Without the toolset it has 18,556 of o200k_base. A change of the list
// needs a new count.
func TestSlim_ListOf100ItemsIsShort(t *testing.T) {
	t.Parallel()
	documents := documents{api.Documents{URLs: longURLs{}}.Of(t.Context(), uuid.New()), view{policy: account.ToolPolicy{Toolsets: []string{account.ToolsetCore, account.ToolsetSlim}}}}
	fields := (&arguments{}).shortFields(documents.view, listedFields)
	short, full := pageOf{Total: 100, Page: 1}, pageOf{Total: 100, Page: 1}
	for _, item := range library() {
		short.MediaItems = append(short.MediaItems, fields.item(documents, item))
		full.MediaItems = append(full.MediaItems, documents.documentOf(documents.Item(item)))
	}
	got, err := httpapi.EncodeJSON(short)
	if err != nil {
		t.Fatal(err)
	}
	long, err := httpapi.EncodeJSON(full)
	if err != nil {
		t.Fatal(err)
	}
	golden := filepath.Join("testdata", "slim_list.json")
	if os.Getenv("MEDIASTACK_UPDATE") != "" {
		if err := os.WriteFile(golden, append(got, '\n'), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(bytes.TrimSpace(got), bytes.TrimSpace(want)) {
		t.Errorf("the list has changed: count its tokens again\n%s", got)
	}
	if len(got) > 18_000 || len(long) < 5*len(got)/2 {
		t.Errorf("the list has %d bytes, that of the specification %d", len(got), len(long))
	}
}

// However long the texts of items are, the list is bounded: a model that lists a library of books does not lose its context.
func TestSlim_ListIsBounded(t *testing.T) {
	t.Parallel()
	documents := documents{api.Documents{URLs: longURLs{}}.Of(t.Context(), uuid.New()), view{policy: account.ToolPolicy{Toolsets: []string{account.ToolsetSlim}}}}
	fields := (&arguments{}).shortFields(documents.view, listedFields)
	item := library()[0]
	item.FileName, item.Group = string(bytes.Repeat([]byte("n"), media.MaxFileName)), string(bytes.Repeat([]byte("g"), media.MaxGroup))
	item.Caption = string(bytes.Repeat([]byte("é"), media.MaxCaption/2))
	got, err := httpapi.EncodeJSON(fields.item(documents, item))
	if err != nil {
		t.Fatal(err)
	}
	if len(got) > 1000 {
		t.Errorf("an item has %d bytes: %s", len(got), got)
	}
}
