package installation

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/fault"
)

// surveyPage is the number of buckets that are listed together.
const surveyPage = 100

// ResumeStore is the part of the database that a resume uses; Package postgres implements it.
type ResumeStore interface {
	Store
	// Resume writes epoch, heartbeat, token and server of next, ends the hold, and gives what waits
	// for its deletion its full time again, at least minDelay. It returns false if the row is not
	// that of from any more.
	Resume(ctx context.Context, from, next State, minDelay time.Duration) (bool, error)
}

// Resumer ends the hold after a restore.
type Resumer struct {
	store   ResumeStore
	markers Markers
	log     *slog.Logger
}

// NewResumer returns a Resumer of these stores.
func NewResumer(store ResumeStore, markers Markers, log *slog.Logger) *Resumer {
	return &Resumer{store: store, markers: markers, log: log}
}

// Survey is what the row and the markers of all owned buckets say.
type Survey struct {
	Row State
	// Read and Missing count the buckets with and without a marker of their account.
	Read, Missing int
	// Foreign describes markers of other installations or accounts, up to maxForeign of them.
	Foreign []string
	// Epoch and Heartbeat are the highest of the markers.
	Epoch, Heartbeat int64
	witnesses        []witnessed
}

// maxForeign bounds how many foreign markers a survey describes.
const maxForeign = 100

// Evidence says why the database seems to be restored or copied; empty if nothing shows it.
func (s Survey) Evidence() string {
	switch {
	case s.Row.HoldReason != "":
		return s.Row.HoldReason
	case !s.Row.Server.Matches(s.Row.CurrentServer):
		return otherServer(s.Row)
	}
	for _, w := range s.witnesses {
		if reason := behind(s.Row, w); reason != "" {
			return reason
		}
	}
	if s.Epoch > s.Row.Epoch || s.Heartbeat > s.Row.Heartbeat {
		return fmt.Sprintf("the database was restored: it has epoch %d and heartbeat %d, and the markers have epoch %d and heartbeat %d", s.Row.Epoch, s.Row.Heartbeat, s.Epoch, s.Heartbeat)
	}
	return ""
}

// Next returns the row after a confirmation, which is ahead of every marker, so that a copy of
// the database is held instead of this one.
func (s Survey) Next() State {
	next := s.Row
	next.Epoch, next.Heartbeat = max(s.Row.Epoch, s.Epoch)+1, max(s.Row.Heartbeat, s.Heartbeat)+1
	next.Server = s.Row.CurrentServer
	return next
}

// Survey reads the row, and the marker of every owned bucket. It changes nothing.
func (r *Resumer) Survey(ctx context.Context) (Survey, error) {
	var s Survey
	if err := r.store.CheckSchema(ctx); err != nil {
		return s, err
	}
	var err error
	if s.Row, err = r.store.Installation(ctx); err != nil {
		return s, err
	}
	var after uuid.UUID
	for {
		buckets, err := r.store.WitnessBuckets(ctx, after, surveyPage)
		if err != nil {
			return s, err
		}
		for _, bucket := range buckets {
			if err := r.survey(ctx, &s, bucket); err != nil {
				return s, err
			}
			after = bucket.AccountID
		}
		if len(buckets) < surveyPage {
			return s, nil
		}
	}
}

// survey reads one marker.
func (r *Resumer) survey(ctx context.Context, s *Survey, bucket Bucket) error {
	marker, err := r.markers.Marker(ctx, bucket.Name)
	switch {
	case fault.Is(err, fault.NotFound):
		s.Missing++
		return nil
	case fault.Is(err, fault.Conflict):
		s.addForeign(fault.From(err).Public)
		return nil
	case err != nil:
		return err
	case marker.InstallationID != s.Row.ID || marker.AccountID != bucket.AccountID.String():
		s.addForeign(fmt.Sprintf("bucket %s belongs to account %s of installation %s, not to account %s of installation %s", bucket.Name, marker.AccountID, marker.InstallationID, bucket.AccountID, s.Row.ID))
		return nil
	}
	s.Read++
	s.Epoch, s.Heartbeat = max(s.Epoch, marker.Epoch), max(s.Heartbeat, marker.Heartbeat)
	if len(s.witnesses) < witnesses {
		s.witnesses = append(s.witnesses, witnessed{bucket: bucket.Name, marker: marker, erasing: bucket.Erasing})
	}
	return nil
}

func (s *Survey) addForeign(text string) {
	if len(s.Foreign) < maxForeign {
		s.Foreign = append(s.Foreign, text)
	}
}

// Confirm ends the hold in one transaction, and then writes the new witness into the markers of
// some buckets. A marker that cannot be written is behind, and is written at a later heartbeat. The
// media of closed accounts is not deleted before minDelay has passed.
func (r *Resumer) Confirm(ctx context.Context, s Survey, minDelay time.Duration) (State, error) {
	next := s.Next()
	next.Token = uuid.New()
	resumed, err := r.store.Resume(ctx, s.Row, next, minDelay)
	if err != nil {
		return State{}, err
	}
	if !resumed {
		return State{}, fault.New(fault.Conflict, "the installation was changed at the same time: run the command again")
	}
	for _, w := range s.witnesses {
		if w.erasing {
			continue
		}
		if err := r.markers.WriteWitness(ctx, w.bucket, w.marker, next.Witness()); err != nil {
			r.log.WarnContext(ctx, "a marker was not written; a heartbeat writes it", "bucket", w.bucket, "error", err)
		}
	}
	return r.store.Installation(ctx)
}
