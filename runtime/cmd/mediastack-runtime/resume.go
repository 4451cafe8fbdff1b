package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"mediastack.dev/runtime/consistency"
	"mediastack.dev/runtime/installation"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/objectstore"
	"mediastack.dev/runtime/postgres"
)

type resumeCommand struct {
	Confirm bool              `help:"End the hold: this database is the one that shall write to the object store. Without it, the command reports and changes nothing."`
	Drafts  media.DraftConfig `embed:""`
	// DeletionDelay is how long an admin has to look at the accounts that the restore closed again.
	DeletionDelay time.Duration      `env:"SERVICE_RESUME_DELETION_DELAY" default:"24h" help:"Least time from the confirmation until the media of closed accounts is deleted, from 0s to 8784h."`
	Database      postgres.Config    `embed:"" group:"Stores"`
	Objects       objectstore.Config `embed:"" prefix:"s3-" group:"Stores"`
}

// Validate checks the bounds; kong calls it.
func (c *resumeCommand) Validate() error {
	if c.DeletionDelay < 0 || c.DeletionDelay > 8784*time.Hour {
		return fmt.Errorf("SERVICE_RESUME_DELETION_DELAY must be from 0s to 8784h, not %s", c.DeletionDelay)
	}
	return nil
}

// surveyLine is what the row and the markers say. It is the first line of the output.
type surveyLine struct {
	Installation  string   `json:"installation"`
	Evidence      string   `json:"evidence"`
	HeldAt        string   `json:"heldAt,omitempty"`
	RowEpoch      int64    `json:"rowEpoch"`
	RowHeartbeat  int64    `json:"rowHeartbeat"`
	RowServer     string   `json:"rowServer"`
	Server        string   `json:"server"`
	Markers       int      `json:"markers"`
	MarkersGone   int      `json:"markersMissing"`
	MaxEpoch      int64    `json:"markersEpoch"`
	MaxHeartbeat  int64    `json:"markersHeartbeat"`
	Foreign       []string `json:"foreignBuckets,omitempty"`
	NextEpoch     int64    `json:"nextEpoch"`
	NextHeartbeat int64    `json:"nextHeartbeat"`
}

// plannedDeletionLine is a closed account whose media is deleted after the confirmation.
type plannedDeletionLine struct {
	PlannedDeletion installation.PlannedDeletion `json:"plannedDeletion"`
}

// resumeSummary is the last line of the output.
type resumeSummary struct {
	Accounts          int    `json:"accounts"`
	PlannedDeletions  int    `json:"plannedDeletions"`
	ExpiredDrafts     int64  `json:"expiredDrafts"`
	MissingOriginals  int64  `json:"missingOriginals"`
	ObjectsWithoutRow int64  `json:"objectsWithoutRow"`
	BytesWithoutRow   int64  `json:"bytesWithoutRow"`
	Keys              int64  `json:"keys"`
	Next              string `json:"next"`
}

// resumedLine is the last line after a confirmation.
type resumedLine struct {
	Confirmed bool      `json:"confirmed"`
	Epoch     int64     `json:"epoch"`
	Heartbeat int64     `json:"heartbeat"`
	Server    string    `json:"server"`
	ResumedAt time.Time `json:"resumedAt"`
}

// Run reports, or confirms.
func (c *resumeCommand) Run(ctx context.Context, log *slog.Logger, io stdio) error {
	store, err := postgres.Open(ctx, c.Database.ForMaintenance(maintenanceConns))
	if err != nil {
		return usageError{err}
	}
	defer store.Close()
	objects, err := objectstore.New(c.Objects)
	if err != nil {
		return usageError{err}
	}
	lines := json.NewEncoder(io.out)
	resumer := installation.NewResumer(store.Installations, objects, log)
	survey, err := resumer.Survey(ctx)
	if err != nil {
		return err
	}
	if err := lines.Encode(describe(survey)); err != nil {
		return err
	}
	if c.Confirm {
		state, err := resumer.Confirm(ctx, survey, c.DeletionDelay)
		if err != nil {
			return err
		}
		return lines.Encode(resumedLine{Confirmed: true, Epoch: state.Epoch, Heartbeat: state.Heartbeat, Server: state.Server.String(), ResumedAt: *state.ResumedAt})
	}
	return c.report(ctx, store, objects, survey.Evidence() != "", log, lines)
}

// report prints what the restore did to each account; restored is false if nothing shows one.
func (c *resumeCommand) report(ctx context.Context, store *postgres.Store, objects *objectstore.Store, restored bool, log *slog.Logger, lines *json.Encoder) error {
	guard := installation.NewGuard(installation.Config{}, installation.Deps{Store: store.Installations, Markers: objects, Log: log})
	checker, err := consistency.NewChecker(store.Consistency, objects, guard.ReadOnly(), consistency.Config{}, time.Now, log)
	if err != nil {
		return err
	}
	summary := resumeSummary{Next: "nothing was changed; with --confirm this database may write to the object store again: drafts keep their full time from then on, objects without a row stay, items without their file stay, " +
		fmt.Sprintf("and the planned deletions wait for their full time, at least %s", c.DeletionDelay)}
	if !restored {
		summary.Next = "nothing was changed, and nothing is on hold: nothing shows that the database was restored; if it was, confirm nevertheless, so that drafts and planned deletions keep their full time"
	}
	err = consistency.NewRestoreReporter(store.Consistency, checker, time.Now().Add(-c.Drafts.DraftTTL)).Run(ctx, func(r consistency.RestoreReport) error {
		summary.Accounts++
		summary.ExpiredDrafts += r.ExpiredDrafts
		summary.MissingOriginals += r.MissingOriginals
		summary.ObjectsWithoutRow += r.ObjectsWithoutRow
		summary.BytesWithoutRow += r.BytesWithoutRow
		summary.Keys += r.Keys
		return lines.Encode(r)
	})
	if err != nil {
		return err
	}
	if err := store.Installations.PlannedDeletions(ctx, func(planned installation.PlannedDeletion) error {
		summary.PlannedDeletions++
		return lines.Encode(plannedDeletionLine{planned})
	}); err != nil {
		return err
	}
	return lines.Encode(summary)
}

// describe returns the line of a survey.
func describe(s installation.Survey) surveyLine {
	next := s.Next()
	line := surveyLine{
		Installation: s.Row.ID.String(), Evidence: s.Evidence(), RowEpoch: s.Row.Epoch, RowHeartbeat: s.Row.Heartbeat,
		RowServer: s.Row.Server.String(), Server: s.Row.CurrentServer.String(), Markers: s.Read, MarkersGone: s.Missing,
		MaxEpoch: s.Epoch, MaxHeartbeat: s.Heartbeat, Foreign: s.Foreign, NextEpoch: next.Epoch, NextHeartbeat: next.Heartbeat,
	}
	if s.Row.HeldAt != nil {
		line.HeldAt = s.Row.HeldAt.UTC().Format(time.RFC3339)
	}
	return line
}
