package consistency

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/media"
)

// RestoreReport is what a restore of the database did to an account, as far as rows and bucket
// show it. It prints as a line of JSON.
type RestoreReport struct {
	Account   uuid.UUID `json:"account"`
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	Bucket    string    `json:"bucket"`
	Items     int64     `json:"items"`
	RestoreCounts
	// MissingOriginals are items whose file is gone: they were deleted after the backup.
	MissingOriginals int64 `json:"missingOriginals"`
	// ObjectsWithoutRow were stored after the backup, or left by a crash. Nothing removes them.
	ObjectsWithoutRow int64 `json:"objectsWithoutRow"`
	BytesWithoutRow   int64 `json:"bytesWithoutRow"`
	// Problems are findings about the bucket itself: it is missing, unmarked or foreign.
	Problems []string `json:"problems,omitempty"`
}

// RestoreReporter reports on every open account. It changes nothing.
type RestoreReporter struct {
	store   RestoreStore
	checker *Checker
	cutoff  time.Time
}

// NewRestoreReporter returns a RestoreReporter. The checker must not repair. Drafts created before
// cutoff are expired.
func NewRestoreReporter(store RestoreStore, checker *Checker, cutoff time.Time) *RestoreReporter {
	return &RestoreReporter{store: store, checker: checker, cutoff: cutoff}
}

// Run passes the report of every open account to report.
func (r *RestoreReporter) Run(ctx context.Context, report func(RestoreReport) error) error {
	var after uuid.UUID
	for {
		accounts, err := r.store.OpenAccountsAfter(ctx, after, accountPage)
		if err != nil {
			return err
		}
		for _, a := range accounts {
			one, err := r.account(ctx, a)
			if err == nil {
				err = report(one)
			}
			if err != nil {
				return fmt.Errorf("account %s: %w", a.ID, err)
			}
			after = a.ID
		}
		if len(accounts) < accountPage {
			return nil
		}
	}
}

// account returns the report of one account.
func (r *RestoreReporter) account(ctx context.Context, a account.Account) (RestoreReport, error) {
	report := RestoreReport{Account: a.ID, Namespace: a.Namespace, Name: a.Name, Bucket: a.Bucket}
	var err error
	if report.RestoreCounts, err = r.store.CountRestored(ctx, a.ID, r.cutoff); err != nil {
		return report, err
	}
	var summary Summary
	err = r.checker.Check(ctx, a, &summary, func(f Finding) error {
		switch f.Kind { //nolint:exhaustive // the others do not come from a restore
		case OrphanObject, UnknownAfterRestore:
			report.ObjectsWithoutRow++
			report.BytesWithoutRow += f.Bytes
		case ObjectMissing:
			if f.Key == "" || media.VariantOfKey(f.Key) == media.Original {
				report.MissingOriginals++
			}
		case BucketMissing, BucketUnmarked, BucketForeign:
			report.Problems = append(report.Problems, f.Detail)
		}
		return nil
	})
	report.Items = summary.Items
	return report, err
}
