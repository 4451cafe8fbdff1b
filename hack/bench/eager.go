package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"mediastack.dev/runtime/media"
	pgstore "mediastack.dev/runtime/postgres"
	"mediastack.dev/runtime/rendition"
	"mediastack.dev/runtime/settings"
)

const (
	// The images of which pictures are made in advance have this size, and are of so many scenes.
	eagerWidth, eagerHeight = 64, 48
	eagerScenes             = 16
	// stalled is how long no picture may be made in advance, and how long objects that the purge has queued may exist.
	stalled = 5 * time.Minute
)

// eager measures how many pictures per second are made in advance: of all items of an account, when a preset
// becomes eager and when it has changed; and the latency of the account's requests meanwhile.
func eager(ctx context.Context, b *bench) error {
	t, err := b.env.tenant(ctx, "eager")
	if err != nil {
		return err
	}
	if err := b.makeImages(ctx, t); err != nil {
		return err
	}
	e, err := b.env.serve(ctx, service, t, fmt.Sprintf("SERVICE_RENDITION_EAGER_RATE=%d", b.EagerRate))
	if err != nil {
		return err
	}
	defer e.Stop()
	status, err := pgstore.Open(ctx, pgstore.Config{DatabaseURL: b.env.server.URL(database)})
	if err != nil {
		return err
	}
	defer status.Close()
	calls, err := b.besideCalls(ctx, e, maximum(1.2))
	if err != nil {
		return err
	}
	first := settings.Preset{Name: "eager", Width: 32, Format: settings.FormatJPEG, Eager: true}
	changed := first
	changed.Width = 40
	made := func(name string, preset settings.Preset) phase {
		return phase{name, func(ctx context.Context) error {
			return errors.Join(e.declare(ctx, preset), b.untilMade(ctx, status.Pictures, t, preset))
		}}
	}
	busy, err := b.compareLatency(ctx, calls, []string{client, service, workers, postgres, store}, made("made", first), made("made again", changed))
	if err != nil {
		return err
	}
	for _, one := range busy {
		perSecond := float64(b.EagerItems) / one.took.Seconds()
		b.add(result{Benchmark: b.name, Case: fmt.Sprintf("pictures of %d items, %s", b.EagerItems, one.name), Figure: "pictures/s", Inputs: map[string]float64{"seconds": one.took.Seconds()}}, perSecond)
		b.note("%d pictures were %s in %s: %s a second, of %d at most", b.EagerItems, one.name, one.took.Round(time.Second/10), number(perSecond), b.EagerRate)
	}
	return errors.Join(b.noteTables(ctx), b.checkEager(ctx, t, changed), t.removeObjects("media"))
}

// declare replaces the presets of the endpoint's tenant.
func (e *endpoint) declare(ctx context.Context, declared ...settings.Preset) error {
	body, err := json.Marshal(map[string]any{"presets": declared})
	if err != nil {
		return err
	}
	_, err = e.do(ctx, http.MethodPost, "/settings/media/create", bytes.NewReader(body), "application/json", http.StatusOK)
	return err
}

// makeImages loads public images, each with a file of its own, and stores the files.
func (b *bench) makeImages(ctx context.Context, t tenant) error {
	started := time.Now()
	var scenes [][]byte
	for n := range eagerScenes {
		file, err := encodeJPEG(scene(eagerWidth, eagerHeight, uint64(n)))
		if err != nil {
			return err
		}
		scenes = append(scenes, file)
	}
	file := func(id uuid.UUID) []byte { return withComment(scenes[id[15]%eagerScenes], id.String()) }
	var ids []uuid.UUID
	if _, err := b.env.seed(ctx, t, seed{items: b.EagerItems, access: func(int) media.Access { return media.Public }, object: func(id uuid.UUID) (string, int64) {
		ids = append(ids, id)
		data := file(id)
		return fmt.Sprintf(`[{"variant":"original","key":%q,"bytes":%d,"mimeType":"image/jpeg","sha256":"%x"}]`, media.ObjectKey(id, media.Original), len(data), sha256.Sum256(data)), int64(len(data))
	}}); err != nil {
		return err
	}
	if err := b.env.execute(ctx, "UPDATE stored_item SET width = $2::int, height = $3::int, facts_version = 3 WHERE account_id = $1::uuid", t.Account.ID, eagerWidth, eagerHeight); err != nil {
		return err
	}
	if err := b.storeObjects(ctx, t, ids, file); err != nil {
		return err
	}
	b.say("%s: %d images made in %s", b.name, len(ids), time.Since(started).Round(time.Second))
	return b.env.vacuum(ctx)
}

// withComment puts a comment behind a JPEG's start, so the file is another one of the same picture.
func withComment(file []byte, comment string) []byte {
	size := len(comment) + 2
	made := append([]byte{0xff, 0xd8, 0xff, 0xfe, byte(size >> 8), byte(size)}, comment...)
	return append(made, file[2:]...)
}

// recipeOf is what a preset with one density and one format asks for.
func recipeOf(preset settings.Preset) media.RecipeID {
	return media.RecipeOf(preset, 1, preset.Format, nil).ID(media.EncoderVersion)
}

// untilMade waits until a picture of a preset is stored of each item, and nothing is pending: as the status of a
// MediaSettings shows them.
func (b *bench) untilMade(ctx context.Context, status rendition.Counts, t tenant, preset settings.Preset) error {
	recipe := recipeOf(preset)
	most, advanced, said := int64(0), time.Now(), time.Now()
	for {
		pending, err := status.EagerPending(ctx, t.Account.ID)
		if err != nil {
			return err
		}
		counts, err := status.PresetCounts(ctx, t.Account.ID)
		if err != nil {
			return err
		}
		var ready int64
		for _, count := range counts {
			if count.Preset == preset.Name && count.RecipeID == recipe {
				ready += count.Items
			}
		}
		if ready > most {
			most, advanced = ready, time.Now()
		}
		switch {
		case pending == 0 && ready == int64(b.EagerItems):
			return nil
		case pending == 0:
			return fmt.Errorf("nothing is pending, and %d of %d items have a picture of the preset", ready, b.EagerItems)
		case time.Since(advanced) > stalled:
			return fmt.Errorf("no picture was made in advance for %s: %d of %d items have one, %d are pending", stalled, ready, b.EagerItems, pending)
		case time.Since(said) > 30*time.Second:
			said = time.Now()
			b.say("%s: %d of %d pictures made, %d items pending", b.name, ready, b.EagerItems, pending)
		}
		if err := wait(500 * time.Millisecond)(ctx); err != nil {
			return err
		}
	}
}

// checkEager checks the database: each item has a current picture of the preset, none is being made, and no work is left.
func (b *bench) checkEager(ctx context.Context, t tenant, preset settings.Preset) error {
	conn, err := pgx.Connect(ctx, b.env.server.AdminURL(database))
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	recipe := recipeOf(preset)
	var current, unfinished, queued, passes int
	err = conn.QueryRow(ctx, `SELECT count(DISTINCT r.item_id) FILTER (WHERE r.ready AND r.recipe_id = $2::bytea), count(*) FILTER (WHERE NOT r.ready),
			(SELECT count(*) FROM work w WHERE w.kind = 'picture' AND w.account_id = $1::uuid AND w.key <> w.account_id),
			(SELECT count(*) FROM rendition_eager e WHERE e.account_id = $1::uuid AND (e.before_id IS NOT NULL OR e.changed <> e.seen))
		FROM rendition r WHERE r.account_id = $1::uuid`, t.Account.ID, recipe[:]).Scan(&current, &unfinished, &queued, &passes)
	if err == nil && (current != b.EagerItems || unfinished != 0 || queued != 0 || passes != 0) {
		err = fmt.Errorf("%d of %d items have a current picture; %d pictures are unfinished, %d items are queued, passes: %d", current, b.EagerItems, unfinished, queued, passes)
	}
	return err
}
