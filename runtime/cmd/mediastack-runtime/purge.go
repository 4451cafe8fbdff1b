package main

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/approval"
	"mediastack.dev/runtime/cdn"
	"mediastack.dev/runtime/fetch"
	"mediastack.dev/runtime/gate"
	"mediastack.dev/runtime/handover"
	"mediastack.dev/runtime/installation"
	"mediastack.dev/runtime/internal/traceexport"
	"mediastack.dev/runtime/inventory"
	"mediastack.dev/runtime/journal"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/oauth"
	"mediastack.dev/runtime/objectstore"
	"mediastack.dev/runtime/postgres"
	"mediastack.dev/runtime/purge"
	"mediastack.dev/runtime/rendition"
	"mediastack.dev/runtime/settings"
)

type purgeCommand struct {
	Purge    media.PurgeConfig      `embed:"" group:"Purge"`
	OAuth    oauth.PurgeConfig      `embed:"" group:"Purge"`
	Keys     account.KeyPurgeConfig `embed:"" group:"Purge"`
	Fetch    fetch.PurgeConfig      `embed:"" group:"Purge"`
	Pictures rendition.PurgeConfig  `embed:"" group:"Purge"`
	Gate     gate.PurgeConfig       `embed:"" group:"Purge"`
	Database postgres.Config        `embed:"" group:"Stores"`
	Objects  objectstore.Config     `embed:"" prefix:"s3-" group:"Stores"`

	Installation installation.Config `embed:"" group:"Stores"`

	Traces traceexport.Config `embed:"" group:"Purge"`
}

// purgeSummary is one line of JSON.
type purgeSummary struct {
	media.PurgeSummary
	// OAuthRowsPurged counts expired login sessions, tokens, grants, clients and e-mails.
	OAuthRowsPurged int `json:"oauthRowsPurged"`
	// KeysPurged counts the records of ended API keys.
	KeysPurged int `json:"keysPurged"`
	// FetchesPurged counts the states of uploads from a URL.
	FetchesPurged int `json:"fetchesPurged"`
	// RenditionsPurged counts stale renditions, and claims of processes that died.
	RenditionsPurged int `json:"renditionsPurged"`
	// EventDaysPurged counts the days of the journal that were dropped.
	EventDaysPurged int `json:"eventDaysPurged"`
	// CDNPurgesEnded counts what was queued for a CDN that no runtime has purged for a day.
	CDNPurgesEnded int `json:"cdnPurgesEnded"`
	// QuarantinePurged counts the files that were in quarantine for too long.
	QuarantinePurged int `json:"quarantinePurged"`
	// ApprovalsExpired counts the requests to owners about which nobody has decided in time, and ApprovalsPurged those that are deleted later.
	ApprovalsExpired int `json:"approvalsExpired"`
	ApprovalsPurged  int `json:"approvalsPurged"`
	// UploadRequestsPurged counts the requests of assistants for a file that have expired.
	UploadRequestsPurged int `json:"uploadRequestsPurged"`
}

// maintenanceConns are the connections of a command that works through one statement after the
// other: one holds a lock or runs the guard beside it.
const maintenanceConns = 2

// Run makes one pass.
func (c *purgeCommand) Run(ctx context.Context, log *slog.Logger, io stdio) error {
	traces, err := traceexport.New(ctx, c.Traces, traceexport.Deps{Service: "mediastack-purge", Version: versionText(), Log: log})
	if err != nil {
		return usageError{err}
	}
	defer traces.Close(ctx)
	ctx, span := traces.Begin(ctx, "purge")
	defer span.End() // before traces is closed
	store, err := postgres.Open(ctx, c.Database.ForMaintenance(maintenanceConns))
	if err != nil {
		return usageError{err}
	}
	defer store.Close()
	objects, err := objectstore.New(c.Objects)
	if err != nil {
		return usageError{err}
	}
	guard := installation.NewGuard(c.Installation, installation.Deps{Store: store.Installations, Markers: objects, Log: log})
	purger, err := media.NewPurger(c.Purge, media.PurgeDeps{Store: store.Items, Tasks: store.Tasks, Objects: media.GuardWrites(objects, guard.Writable), Guard: guard, Now: time.Now, Log: log})
	if err != nil {
		return err
	}
	defer runGuard(ctx, guard)()
	// The summary is printed also if the pass fails.
	var summary purgeSummary
	var swept error
	started := time.Now()
	summary.PurgeSummary, swept = purger.Run(ctx,
		func(ctx context.Context, batches purge.Batches) (err error) {
			summary.OAuthRowsPurged, err = oauth.Purge(ctx, c.OAuth, store.Logins, batches, time.Now())
			return err
		},
		func(ctx context.Context, batches purge.Batches) (err error) {
			summary.KeysPurged, err = account.PurgeKeys(ctx, c.Keys, store.Accounts, batches)
			return err
		},
		func(ctx context.Context, batches purge.Batches) (err error) {
			summary.FetchesPurged, err = fetch.Purge(ctx, c.Fetch, store.Fetches, batches, time.Now())
			return err
		},
		func(ctx context.Context, batches purge.Batches) (err error) {
			presets := rendition.NewPresets(settings.NewService(store.Settings))
			summary.RenditionsPurged, err = rendition.Purge(ctx, c.Pictures, rendition.PurgeDeps{Store: store.Pictures, Presets: presets, Log: log, Batches: batches}, time.Now())
			return err
		},
		func(ctx context.Context, batches purge.Batches) (err error) {
			summary.EventDaysPurged, err = journal.Purge(ctx, store.Journal, batches)
			return err
		},
		func(ctx context.Context, batches purge.Batches) (err error) {
			summary.CDNPurgesEnded, err = cdn.Forget(ctx, store.CDN, batches)
			return err
		},
		func(ctx context.Context, batches purge.Batches) (err error) {
			summary.QuarantinePurged, err = gate.Purge(ctx, c.Gate, store.Gates, batches, time.Now())
			return err
		},
		func(ctx context.Context, batches purge.Batches) (err error) {
			summary.ApprovalsExpired, err = approval.Expire(ctx, store.Approvals, batches, time.Now())
			return err
		},
		func(ctx context.Context, batches purge.Batches) (err error) {
			summary.ApprovalsPurged, err = approval.Purge(ctx, store.Approvals, batches, time.Now())
			return err
		},
		func(ctx context.Context, batches purge.Batches) (err error) {
			summary.UploadRequestsPurged, err = handover.Purge(ctx, store.Handovers, batches, time.Now())
			return err
		})
	recordPurge(ctx, store, summary, swept, started, log)
	if err := json.NewEncoder(io.out).Encode(summary); err != nil {
		return err
	}
	if summary.Held != "" {
		return heldError{summary.Held}
	}
	if swept == nil && summary.NeedsAttention {
		return exitCode(exitActionRequired)
	}
	return swept
}

// recordTimeout bounds the recording of a run.
const recordTimeout = 5 * time.Second

// recordPurge records what a run did, for the metrics, also if the run was ended. A run that found another
// one running did nothing.
func recordPurge(ctx context.Context, store *postgres.Store, summary purgeSummary, failure error, started time.Time, log *slog.Logger) {
	if !summary.Ran && failure == nil && summary.Held == "" {
		return
	}
	run := inventory.PurgeRun{Started: started, Ended: time.Now(), Outcome: inventory.Completed, NeedsAttention: summary.NeedsAttention, BucketsSkipped: int64(summary.BucketsSkipped),
		PurgeCounts: inventory.PurgeCounts{Drafts: int64(summary.DraftsPurged), DeletedItems: int64(summary.DeletedItemsPurged), Uploads: int64(summary.UploadsExpired), Removals: int64(summary.RemovalsDone), Renditions: int64(summary.RenditionsPurged),
			RemovalsFailed: int64(summary.RemovalsFailed), OAuthRows: int64(summary.OAuthRowsPurged), APIKeys: int64(summary.KeysPurged)}}
	switch {
	case summary.Held != "":
		run.Outcome = inventory.Held
	case failure != nil:
		run.Outcome = inventory.Failed
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	if err := store.Installations.RecordPurge(ctx, run); err != nil {
		log.WarnContext(ctx, "the run is not recorded, and missing in the metrics", "error", err)
	}
}
