package rendition_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/purge"
	"mediastack.dev/runtime/rendition"
	"mediastack.dev/runtime/settings"
)

// claims is a store of claims that have ended, and of stale renditions.
type claims struct {
	rendition.PurgeStore
	left, stale int
	takes       time.Duration // of a batch of stale renditions
}

func (c *claims) EndClaims(_ context.Context, _ time.Time, batch int) (int, error) {
	n := min(batch, c.left)
	c.left -= n
	return n, nil
}

func (*claims) AccountsWithRenditions(context.Context, uuid.UUID, int) ([]uuid.UUID, error) {
	return nil, nil
}

func (c *claims) EndStaleRenditions(_ context.Context, _ time.Time, _ []uuid.UUID, batch int) (int, error) {
	time.Sleep(c.takes) //nolint:forbidigo // the clock of synctest
	n := min(batch, c.stale)
	c.stale -= n
	return n, nil
}

// Each batch locks what uploads of its accounts need: batches without a pause slowed them down.
func TestPurge_PausesBetweenBatches(t *testing.T) {
	t.Parallel()
	store, pauses := &claims{left: 1001}, 0
	n, err := rendition.Purge(t.Context(), rendition.PurgeConfig{}, rendition.PurgeDeps{Store: store, Batches: purge.Batches{Size: 200, Pause: func(context.Context, time.Duration) error { pauses++; return nil }}}, time.Now())
	if err != nil || n != 1001 || pauses != 5 {
		t.Errorf("%d claims ended with %d pauses, %v", n, pauses, err)
	}
	interrupted := errors.New("interrupted")
	store.left = 1001
	_, err = rendition.Purge(t.Context(), rendition.PurgeConfig{}, rendition.PurgeDeps{Store: store, Batches: purge.Batches{Size: 200, Pause: func(context.Context, time.Duration) error { return interrupted }}}, time.Now())
	if !errors.Is(err, interrupted) || store.left != 801 {
		t.Errorf("%d claims are left, %v", store.left, err)
	}
}

// A preset of many items changes in one moment: the end of its renditions must not load the database all at once.
func TestPurge_EndsStaleRenditionsAtARate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &claims{stale: 1010, takes: 20 * time.Millisecond}
		run := func(ctx context.Context, rate int) (n int, took time.Duration, err error) {
			started := time.Now()
			n, err = rendition.Purge(ctx, rendition.PurgeConfig{StaleRate: rate}, rendition.PurgeDeps{Store: store, Batches: purge.Batches{Size: 50}}, time.Now())
			return n, time.Since(started), err
		}
		if n, took, err := run(t.Context(), 500); err != nil || n != 1010 || took != 2020*time.Millisecond {
			t.Errorf("%d ended in %s, %v", n, took, err)
		}
		store.stale = 1010
		if n, took, err := run(t.Context(), 0); err != nil || n != 1010 || took != 420*time.Millisecond {
			t.Errorf("not bounded, %d ended in %s, %v", n, took, err)
		}
		store.stale = 1010
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if n, _, err := run(ctx, 500); !errors.Is(err, context.DeadlineExceeded) || n != 50 {
			t.Errorf("interrupted, %d ended, %v", n, err)
		}
	})
	for _, rate := range []int{-1, 100_001} {
		if err := (rendition.PurgeConfig{StaleRate: rate}).Validate(); err == nil {
			t.Errorf("a rate of %d is valid", rate)
		}
	}
}

func TestPurge_EndsWhatIsStaleAfterTheGrace(t *testing.T) {
	t.Parallel()
	w := setup(t)
	one := w.tenant(t, 100_000)
	item := w.sealed(t, one.Principal, 500)
	for _, request := range []rendition.Request{of("a", 1), of("a", 2), of("b", 3)} {
		w.get(t, one, item, request)
	}
	focus := of("c", 4) // the point is the item's: only the latest is kept, and none is stale
	for x := range 2 {
		focus.Recipe.PointX = 1 + x
		w.get(t, one, item, focus)
	}
	claim := rendition.Claim{ID: uuid.New(), Ref: rendition.Ref{ItemID: item.ID, Key: media.RenditionKey{1}}, AccountID: one.Account().ID, Preset: "a", Lease: time.Minute}
	claimed, err := w.Store.Pictures.ClaimRendition(t.Context(), claim)
	must(t, err)
	_, err = w.Store.Pictures.ReserveRendition(t.Context(), claim, 10)
	must(t, err)
	if !claimed || w.rows(t, one) != 4 {
		t.Fatalf("%d renditions", w.rows(t, one))
	}
	count := func(preset string) (items int64) {
		counts, err := w.Store.Pictures.PresetCounts(t.Context(), one.Account().ID)
		must(t, err)
		for _, c := range counts {
			if c.Preset == preset {
				items += c.Items
				if c.Bytes != c.Items*1000 {
					t.Errorf("%+v", c)
				}
			}
		}
		return items
	}
	now := time.Now()
	purge := func(at time.Duration, want int, allowed ...rendition.Request) {
		t.Helper()
		n, err := rendition.Purge(t.Context(), rendition.PurgeConfig{StaleGrace: 24 * time.Hour}, rendition.PurgeDeps{Store: w.Store.Pictures, Presets: presets(allowed), Log: slog.New(slog.DiscardHandler), Batches: purge.Batches{Size: 50}}, now.Add(at))
		if err != nil || n != want {
			t.Errorf("at %s the purge ended %d, %v, want %d", at, n, err, want)
		}
	}
	current := []rendition.Request{of("a", 1), of("b", 3), of("c", 4)}
	purge(0, 0, current...)
	purge(time.Hour, 1, current...)                        // the claim
	purge(20*time.Hour, 0, append(current, of("a", 2))...) // the preset is back
	purge(25*time.Hour, 0, current...)
	purge(48*time.Hour, 0, current...)
	if n := count("a"); n != 2 {
		t.Errorf("%d renditions of a", n)
	}
	purge(50*time.Hour, 1, current...)
	if a, b, c := count("a"), count("b"), count("c"); a != 1 || b != 1 || c != 1 {
		t.Errorf("%d, %d, %d renditions", a, b, c)
	}
	w.balanced(t, one)
	renamed := []rendition.Request{of("renamed", 1), of("b", 3), of("c", 4)}
	purge(51*time.Hour, 0, renamed...) // its pictures are those of its recipe
	purge(76*time.Hour, 0, renamed...)
	purge(77*time.Hour, 0)
	purge(102*time.Hour, 3)
	w.Counts(t, 0, "totals are left", `SELECT count(*) FROM rendition_total`)
	w.balanced(t, one)
}

// Renditions that an earlier run has marked as stale ended although the presets, which may have them again, could not be read.
func TestPurge_KeepsWhatItCannotJudge(t *testing.T) {
	t.Parallel()
	w := setup(t)
	broken, other := w.tenant(t, 100_000), w.tenant(t, 100_000)
	for _, of := range []tenant{broken, other} {
		w.get(t, of, w.sealed(t, of.Principal, 500), rendition.Request{Preset: "a", Recipe: media.Recipe{Width: 1, Fit: settings.Inside, Format: settings.FormatWebP}})
	}
	var log bytes.Buffer
	stored := rendition.NewPresets(settings.NewService(w.Store.Settings))
	purge := func(at time.Duration, want int) {
		t.Helper()
		n, err := rendition.Purge(t.Context(), rendition.PurgeConfig{StaleGrace: time.Hour}, rendition.PurgeDeps{Store: w.Store.Pictures, Presets: stored, Log: slog.New(slog.NewTextHandler(&log, nil)), Batches: purge.Batches{Size: 50}}, time.Now().Add(at))
		if err != nil || n != want {
			t.Errorf("at %s the purge ended %d, %v, want %d", at, n, err, want)
		}
	}
	purge(0, 0) // no preset has them
	w.exec(t, `INSERT INTO settings_tenant (account_id, fields) VALUES ($1, '{"presets": [{"name": "A", "width": -1}]}')`, broken.Account().ID)
	purge(2*time.Hour, 1)
	if kept, ended := w.rows(t, broken), w.rows(t, other); kept != 1 || ended != 0 {
		t.Errorf("%d renditions of the account whose presets cannot be read are left, and %d of the other one", kept, ended)
	}
	if !strings.Contains(log.String(), broken.Account().ID.String()) || strings.Contains(log.String(), other.Account().ID.String()) {
		t.Errorf("the log does not say which account was skipped: %s", log.String())
	}
	w.exec(t, `DELETE FROM settings_tenant`)
	purge(3*time.Hour, 1)
	w.balanced(t, broken)
	w.balanced(t, other)
}
