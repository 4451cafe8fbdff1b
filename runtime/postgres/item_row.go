package postgres

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype/zeronull"

	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/postgres/internal/sqlgen"
)

// A new column of items is in itemOf, and in itemColumns with scanItem, where it is read; in commitParams, commitStoredFiles,
// CommitUploads (queries/upload.sql) and CommitStored (queries/upload_writer.sql), where it is written.

// itemOf returns the item of a row.
func itemOf(row sqlgen.Item) media.Item {
	facts := factColumns{width: row.Width, height: row.Height, placeholder: row.Placeholder, color: row.DominantColor, duration: row.DurationMs, pages: row.Pages}
	return media.Item{ID: row.ID, AccountID: row.AccountID, AppID: row.AppID, FileName: row.FileName, Access: media.Access(row.Access),
		Caption: row.Caption, Group: row.GroupLabel, Metadata: row.Metadata, Objects: row.Objects, Facts: facts.facts(), Focus: focusColumns{row.FocusX, row.FocusY}.point(), Version: int(row.Version),
		CreatedAt: row.CreatedAt, SealedAt: row.SealedAt, Ref: row.Ref, Derivatives: media.DerivativesState(row.DerivativesState), Check: media.CheckState(row.GateState), Capture: captureOf(row.Capture)}
}

// itemColumns are the columns that scanItem reads. The account and the app are not among them: the caller knows them.
const itemColumns = "id, file_name, access, caption, group_label, objects, created_at, sealed_at, version, metadata, width, height, placeholder, dominant_color, duration_ms, pages, ref, focus_x, focus_y, derivatives_state, gate_state, capture"

// scanItem reads a row of a list into an item, without a copy: what leads, and itemColumns. All columns of an item are null in a row without
// one.
func scanItem(rows pgx.Rows, item *media.Item, leading ...any) error {
	var facts factColumns
	var version zeronull.Int4
	var focus focusColumns
	var derivatives, check zeronull.Int2
	var captured []byte
	err := rows.Scan(append(leading, (*zeronull.UUID)(&item.ID), (*zeronull.Text)(&item.FileName), (*zeronull.Text)(&item.Access),
		(*zeronull.Text)(&item.Caption), (*zeronull.Text)(&item.Group), &item.Objects, (*zeronull.Timestamptz)(&item.CreatedAt), &item.SealedAt,
		&version, &item.Metadata, &facts.width, &facts.height, &facts.placeholder, &facts.color, &facts.duration, &facts.pages, (*zeronull.Text)(&item.Ref), &focus.x, &focus.y, &derivatives, &check, &captured)...)
	item.Version, item.Facts, item.Focus, item.Derivatives = int(version), facts.facts(), focus.point(), media.DerivativesState(derivatives)
	item.Check, item.Capture = media.CheckState(check), captureOf(captured)
	return err
}

// commitParams returns the columns of new items, whose account and app are those of their uploads.
func commitParams(lockTimeout time.Duration, drafts []draft) (sqlgen.CommitUploadsParams, error) {
	params := sqlgen.CommitUploadsParams{LockTimeout: milliseconds(lockTimeout)}
	for _, item := range drafts {
		objects, err := json.Marshal(item.Objects)
		if err != nil {
			return params, fmt.Errorf("encode the objects of item %s: %w", item.ID, err)
		}
		metadata, err := json.Marshal(item.Metadata)
		if err != nil {
			return params, fmt.Errorf("encode the metadata of item %s: %w", item.ID, err)
		}
		params.Ids = append(params.Ids, item.ID)
		params.FileNames = append(params.FileNames, item.FileName)
		params.Accesses = append(params.Accesses, string(item.Access))
		params.Captions = append(params.Captions, item.Caption)
		params.Groups = append(params.Groups, item.Group)
		params.Objects = append(params.Objects, string(objects))
		params.Bytes = append(params.Bytes, item.Objects.Bytes())
		params.CreatedAt = append(params.CreatedAt, item.CreatedAt)
		params.Metadata = append(params.Metadata, string(metadata))
		params.Widths = append(params.Widths, integer(item.Facts.Width))
		params.Heights = append(params.Heights, integer(item.Facts.Height))
		params.Placeholders = append(params.Placeholders, item.Facts.Placeholder)
		params.DominantColors = append(params.DominantColors, item.Facts.DominantColor)
		params.Durations = append(params.Durations, item.Facts.Duration.Milliseconds())
		params.Pages = append(params.Pages, integer(item.Facts.Pages))
		params.Refs = append(params.Refs, item.Ref)
		params.Derivatives = append(params.Derivatives, int16(item.Derivatives))
		params.Gates = append(params.Gates, gateState(item.Check))
		params.Captures = append(params.Captures, captureColumn(item.Facts))
		params.Actors = append(params.Actors, item.by.Text())
	}
	return params, nil
}

// factColumns are the columns of media.Facts: null for what is not known.
type factColumns struct {
	width, height *int32
	placeholder   []byte
	color         *string
	duration      *int64 // in milliseconds
	pages         *int32
}

func (c factColumns) facts() media.Facts {
	return media.Facts{Width: int(valueOf(c.width)), Height: int(valueOf(c.height)), Placeholder: c.placeholder, DominantColor: valueOf(c.color),
		Duration: time.Duration(valueOf(c.duration)) * time.Millisecond, Pages: int(valueOf(c.pages))}
}

func valueOf[T int32 | int64 | string](column *T) (value T) {
	if column != nil {
		value = *column
	}
	return value
}

// integer returns the column of a width, a height or a number of pages.
func integer(value int) int32 { return int32(value) } //nolint:gosec // what the image worker and filehead return fits

// known returns the column of a fact: null for zero.
func known(value int) *int32 {
	if value == 0 {
		return nil
	}
	column := integer(value)
	return &column
}

func knownText(value string) *string {
	if value == "" {
		return nil
	}
	return &value
}

func knownDuration(value time.Duration) *int64 {
	if value == 0 {
		return nil
	}
	column := value.Milliseconds()
	return &column
}

// notNil returns metadata that is not nil, which the driver would store as null.
func notNil(metadata media.Metadata) media.Metadata {
	if metadata == nil {
		return media.Metadata{}
	}
	return metadata
}

// gateState returns the state of a new item. One that is to be sealed waits as others do: the transaction records the seal after it.
func gateState(check media.CheckState) int16 {
	if check == media.CheckSealWanted {
		check = media.CheckWaiting
	}
	return int16(check)
}
