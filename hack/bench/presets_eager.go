package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"image/jpeg"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/minio/minio-go/v7"
	"golang.org/x/sync/errgroup"

	"mediastack.dev/runtime/media"
	pgstore "mediastack.dev/runtime/postgres"
	"mediastack.dev/runtime/rendition"
	"mediastack.dev/runtime/settings"
)

const (
	// The images of which pictures are made in advance have this size, and are of so many scenes.
	eagerWidth, eagerHeight = 64, 48
	eagerScenes             = 16
	// Of one in watchedPart items pictures are asked for while they are made in advance, and of maxWatched at most. checkedPictures is
	// how many are looked at in the end.
	watchedPart     = 10
	maxWatched      = 1000
	checkedPictures = 200
	// stalled is how long no picture may be made in advance.
	stalled = 5 * time.Minute
)

// changedEagerPreset measures the requests of an account while the pictures of its eager preset are made of many items, and
// made again after the preset has changed. No answer may have a picture of the former preset after the change.
func (b *bench) changedEagerPreset(ctx context.Context) error {
	t, err := b.env.tenant(ctx, "eager-preset")
	if err != nil {
		return err
	}
	ids, err := b.makeImages(ctx, t)
	if err != nil {
		return err
	}
	e, err := b.env.serve(ctx, service, t)
	if err != nil {
		return err
	}
	defer func() { e.Stop() }()
	replicas := []string{"runtime 2"}
	other, err := b.env.serve(ctx, replicas[0], t, "SERVICE_RENDITION_EAGER_RATE=0")
	if err != nil {
		return err
	}
	defer other.Stop()
	status, err := pgstore.Open(ctx, pgstore.Config{DatabaseURL: b.env.server.URL(database)})
	if err != nil {
		return err
	}
	defer status.Close()
	before := settings.Preset{Name: "eager", Width: 32, Format: settings.FormatJPEG}
	if err := e.declare(ctx, before); err != nil {
		return err
	}
	before.Eager = true
	after := before
	after.Width = 40
	watched := &watchedPictures{replicas: []*endpoint{e, other}, variant: before.Name, former: before.Width, next: after.Width}
	if err := watched.ask(ctx, sampleOf(ids, min(max(1, len(ids)/watchedPart), maxWatched))); err != nil {
		return err
	}
	stored, err := b.storeFiles(ctx, e, 100_000, 16)
	if err != nil {
		return err
	}
	calls := append(besideCalls(e, stored), pacedCall{"picture of the preset", watched.call, nil})
	slow, err := b.runPhases(ctx, calls,
		phase{"warming up", wait(min(b.Idle, 3*time.Second))},
		phase{"before", wait(b.Idle)},
		phase{"made at the default rate", func(ctx context.Context) error {
			return errors.Join(e.declare(ctx, before), wait(2*b.Idle)(ctx))
		}},
	)
	if err != nil {
		return err
	}
	makers := []*endpoint{e}
	sum := func(name string) (sum float64, err error) {
		for _, maker := range makers {
			n, failed := maker.metric(ctx, name)
			sum, err = sum+n, errors.Join(err, failed)
		}
		return sum, err
	}
	const made = "mediastack_rendition_eager_made_total"
	madeSlowly, err := sum(made)
	if err != nil {
		return err
	}
	e.Stop()
	rate := fmt.Sprintf("SERVICE_RENDITION_EAGER_RATE=%d", b.EagerRate)
	faster, err := b.env.serve(ctx, service, t, rate)
	if err != nil {
		return err
	}
	*e = *faster
	for n := range b.EagerReplicas - 1 {
		name := fmt.Sprintf("runtime %d", n+3)
		maker, err := b.env.serve(ctx, name, t, rate)
		if err != nil {
			return err
		}
		defer maker.Stop()
		replicas = append(replicas, name)
		makers = append(makers, maker)
	}
	var madeFirst float64 // by the first of the phases
	fast, err := b.runPhases(ctx, calls,
		phase{"warming up", func(ctx context.Context) (err error) {
			err = wait(min(b.Idle, 3*time.Second))(ctx)
			found, failed := sum(made)
			madeFirst = found
			return errors.Join(err, failed)
		}},
		phase{"made", b.untilMade(status, t, before)},
		phase{"made again", func(ctx context.Context) error {
			if err := e.declare(ctx, after); err != nil {
				return err
			}
			if err := watched.change(ctx); err != nil {
				return err
			}
			return b.untilMade(status, t, after)(ctx)
		}},
		phase{"afterwards", wait(b.Idle)},
	)
	if err != nil {
		return err
	}
	if err := b.checkEager(ctx, t, after); err != nil {
		return err
	}
	checked := sampleOf(ids, checkedPictures)
	for n, id := range checked {
		if _, err := watched.replicas[n%2].checkPicture(ctx, id.String(), after); err != nil {
			return err
		}
	}
	if stale := watched.stale.Load(); stale > 0 {
		return fmt.Errorf("%d of %d pictures that were asked for after the change were those of the former preset", stale, watched.asked.Load())
	}
	total, err := sum(made)
	if err != nil {
		return err
	}
	retried, err := sum(`mediastack_rendition_eager_items_total{result="retried"}`)
	if err != nil {
		return err
	}
	idle := []measuredPhase{slow[1], fast[3]}
	busy := []measuredPhase{slow[2], fast[1], fast[2]}
	shown := table{{"p99, ms", "before", "afterwards"}}
	for _, during := range busy {
		shown[0] = append(shown[0], during.name, "ratio", "target", "")
	}
	for k, kind := range calls {
		row := []string{kind.name, milliseconds(idle[0].found[k].percentile(0.99)), milliseconds(idle[1].found[k].percentile(0.99))}
		for _, during := range busy {
			row = append(row, b.compareSlow(kind, k, during, idle...)...)
		}
		shown.row(row...)
	}
	shown.print(b.out)
	b.note("")
	b.printShares([]measuredPhase{idle[0], busy[0], busy[1], busy[2], idle[1]}, slices.Concat([]string{client, postgres, store, service, workers}, replicas),
		slices.Concat([]string{"cores of client", "PostgreSQL", "S3", "runtime", "its workers"}, replicas)...)
	perSecond := func(pictures float64, of measuredPhase) float64 { return max(0.001, pictures/of.took.Seconds()) }
	// Those of the watched items are made by requests, at first and, unless an eager one is earlier, again.
	first := float64(len(ids)-len(watched.ids)) - madeSlowly - madeFirst
	again := total - madeFirst - first
	for _, one := range []struct {
		phase    measuredPhase
		pictures float64
	}{{busy[0], madeSlowly}, {busy[1], first}, {busy[2], again}} {
		b.add(result{Benchmark: b.name, Case: fmt.Sprintf("eager preset of %d items, %s", b.EagerItems, one.phase.name), Figure: "pictures/s in advance",
			Inputs: map[string]float64{"pictures": one.pictures, "seconds": one.phase.took.Seconds()}}, perSecond(one.pictures, one.phase))
	}
	b.add(result{Benchmark: b.name, Case: fmt.Sprintf("eager preset of %d items, asked for after the change", b.EagerItems), Figure: "part of fresh pictures", Target: minimum(1),
		Inputs: map[string]float64{"asked": float64(watched.asked.Load()), "conditional": float64(watched.conditional.Load()), "rejected": float64(watched.rejected.Load())}}, 1) // or the benchmark has failed
	b.note("%d images of %d x %d pixels, a JPEG of %d, later %d, pixels of each; %d requests a second come at an even pace: as many of each kind. Made in advance, per second: %s at the default rate, of which the first %s after the preset became eager were measured; "+
		"%s by %d replicas at a rate of %d each, and %s again after its width had changed; %g items were tried again", b.EagerItems, eagerWidth, eagerHeight, before.Width, after.Width, b.Pace,
		number(perSecond(madeSlowly, busy[0])), busy[0].took.Round(time.Second), number(perSecond(first, busy[1])), b.EagerReplicas, b.EagerRate, number(perSecond(again, busy[2])), retried)
	b.note("%d pictures of %d items were asked for after the change, in turns of two replicas, %d of them with the ETag of before: none was one of before, %d were rejected; afterwards all %d items have a current picture, in the database and in the status, nothing is pending, and %d pictures that were read have the new width",
		watched.asked.Load(), len(watched.ids), watched.conditional.Load(), watched.rejected.Load(), b.EagerItems, len(checked))
	return t.removeObjects("media")
}

// sampleOf returns some of the ids, in any order.
func sampleOf(ids []uuid.UUID, size int) []uuid.UUID {
	var chosen []uuid.UUID
	for _, n := range rand.Perm(len(ids))[:min(size, len(ids))] {
		chosen = append(chosen, ids[n])
	}
	return chosen
}

// makeImages loads public images, each with a file of its own, and stores the files.
func (b *bench) makeImages(ctx context.Context, t tenant) ([]uuid.UUID, error) {
	started := time.Now()
	var scenes [][]byte
	for n := range eagerScenes {
		file, err := encodeJPEG(scene(eagerWidth, eagerHeight, uint64(n)))
		if err != nil {
			return nil, err
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
		return nil, err
	}
	if err := b.execute(ctx, "UPDATE stored_item SET width = $2::int, height = $3::int, facts_version = 3 WHERE account_id = $1::uuid", t.Account.ID, eagerWidth, eagerHeight); err != nil {
		return nil, err
	}
	group, writing := errgroup.WithContext(ctx)
	group.SetLimit(16)
	for n, id := range ids {
		if n > 0 && n%10_000 == 0 {
			b.say("%s: %d of %d images stored", b.name, n, len(ids))
		}
		group.Go(func() error {
			data := file(id)
			_, err := b.env.bare.Client.PutObject(writing, t.Account.Bucket, media.ObjectKey(id, media.Original), bytes.NewReader(data), int64(len(data)),
				minio.PutObjectOptions{ContentType: "image/jpeg", DisableContentSha256: true})
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	b.say("%s: %d images made in %s", b.name, len(ids), time.Since(started).Round(time.Second))
	return ids, b.env.vacuum(ctx)
}

// withComment puts a comment behind a JPEG's start, so that the file is another one of the same picture.
func withComment(file []byte, comment string) []byte {
	size := len(comment) + 2
	made := append([]byte{0xff, 0xd8, 0xff, 0xfe, byte(size >> 8), byte(size)}, comment...)
	return append(made, file[2:]...)
}

// recipeOf is what a preset with one density and one format asks for.
func recipeOf(preset settings.Preset) media.RecipeID {
	return media.RecipeOf(preset, 1, preset.Format, nil).ID(media.EncoderVersion)
}

// untilMade returns an activity that waits until a picture of a preset is stored of each item, and nothing is pending: as the
// status of a MediaSettings shows them.
func (b *bench) untilMade(status rendition.Counts, t tenant, preset settings.Preset) func(context.Context) error {
	recipe := recipeOf(preset)
	return func(ctx context.Context) error {
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
}

// checkEager checks the database: each item has a current picture of the preset, none is being made, and no work is left.
func (b *bench) checkEager(ctx context.Context, t tenant, preset settings.Preset) error {
	conn, err := pgx.Connect(ctx, b.env.server.AdminURL(database))
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	recipe := recipeOf(preset)
	var current, items, unfinished, queued, passes int
	err = conn.QueryRow(ctx, `SELECT count(*) FILTER (WHERE r.ready AND r.recipe_id = $2::bytea), count(DISTINCT r.item_id) FILTER (WHERE r.ready AND r.recipe_id = $2::bytea),
			count(*) FILTER (WHERE NOT r.ready), (SELECT count(*) FROM rendition_queue q WHERE q.account_id = $1::uuid),
			(SELECT count(*) FROM rendition_eager e WHERE e.account_id = $1::uuid AND (e.before_id IS NOT NULL OR e.changed <> e.seen))
		FROM rendition r WHERE r.account_id = $1::uuid`, t.Account.ID, recipe[:]).Scan(&current, &items, &unfinished, &queued, &passes)
	if err == nil && (current != b.EagerItems || items != b.EagerItems || unfinished != 0 || queued != 0 || passes != 0) {
		err = fmt.Errorf("the database has %d current pictures of %d items, not of %d; %d are unfinished, %d items are queued, passes: %d", current, items, b.EagerItems, unfinished, queued, passes)
	}
	return err
}

// watchedPictures are pictures of a preset that are asked for while it changes.
type watchedPictures struct {
	replicas     []*endpoint
	variant      string
	former, next int // widths
	ids          []string
	etags        map[string]string // of the former pictures

	mu      sync.Mutex
	changed bool // every replica has the new preset

	// Of the requests that began after the change:
	asked, conditional, stale, rejected atomic.Int64
}

// ask asks for the pictures of items before the preset changes, and remembers their ETags.
func (w *watchedPictures) ask(ctx context.Context, ids []uuid.UUID) error {
	w.etags = map[string]string{}
	for n, id := range ids {
		found, err := w.replicas[n%len(w.replicas)].checkPicture(ctx, id.String(), settings.Preset{Name: w.variant, Width: w.former})
		if err != nil {
			return err
		}
		w.ids = append(w.ids, id.String())
		w.etags[id.String()] = found.etag
	}
	return nil
}

// change waits until each replica reports the new preset. No request after that may be answered with a former picture.
func (w *watchedPictures) change(ctx context.Context) error {
	for _, e := range w.replicas {
		for {
			text, err := e.get(ctx, "/settings/media/get")
			if err != nil {
				return err
			}
			if bytes.Contains(bytes.ReplaceAll(text, []byte(" "), nil), fmt.Appendf(nil, `"width":%d`, w.next)) {
				break
			}
			if err := wait(time.Millisecond)(ctx); err != nil {
				return err
			}
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.changed = true
	return nil
}

// call asks a replica for a picture. Every other request for an item has the ETag of its former picture.
func (w *watchedPictures) call(ctx context.Context, n int64) error {
	id := w.ids[n%int64(len(w.ids))]
	turn := n + n/int64(len(w.ids))
	known := ""
	if turn/2%2 == 0 {
		known = w.etags[id]
	}
	w.mu.Lock()
	changed := w.changed
	w.mu.Unlock()
	found, err := w.replicas[turn%int64(len(w.replicas))].askPicture(ctx, id, w.variant, known)
	if isStatus(err, http.StatusTooManyRequests) {
		if changed {
			w.rejected.Add(1)
		}
		return nil
	}
	if err != nil {
		return err
	}
	former := found.unchanged || found.etag == w.etags[id] || found.width == w.former
	if !former && found.width != w.next {
		return fmt.Errorf("the picture of item %s has a width of %d, not %d or %d", id, found.width, w.former, w.next)
	}
	if !changed {
		return nil
	}
	w.asked.Add(1)
	if known != "" {
		w.conditional.Add(1)
	}
	if former {
		w.stale.Add(1)
	}
	return nil
}

// foundPicture is an answer to a request for a picture.
type foundPicture struct {
	etag      string
	width     int
	unchanged bool // 304
}

// askPicture asks for a picture, unless it has a known ETag, and decodes it.
func (e *endpoint) askPicture(ctx context.Context, id, variant, known string) (foundPicture, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, e.baseURL+pictureAddress(id, variant), nil)
	if err != nil {
		return foundPicture{}, err
	}
	if known != "" {
		request.Header.Set("If-None-Match", known)
	}
	response, err := e.client.Do(request)
	if err != nil {
		return foundPicture{}, err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	switch {
	case err != nil:
		return foundPicture{}, err
	case response.StatusCode == http.StatusNotModified && known != "":
		return foundPicture{unchanged: true}, nil
	case response.StatusCode != http.StatusOK:
		return foundPicture{}, statusError{response.StatusCode, fmt.Sprintf("the picture %s of item %s was answered %s: %.300s", variant, id, response.Status, data)}
	}
	picture, err := jpeg.Decode(bytes.NewReader(data))
	if err != nil {
		return foundPicture{}, fmt.Errorf("the picture %s of item %s: %w", variant, id, err)
	}
	sum := sha256.Sum256(data)
	found := foundPicture{etag: response.Header.Get("ETag"), width: picture.Bounds().Dx()}
	if want := `"` + hex.EncodeToString(sum[:]) + `"`; found.etag != want {
		return foundPicture{}, fmt.Errorf("the picture %s of item %s has the ETag %s, and bytes of %s", variant, id, found.etag, want)
	}
	return found, nil
}

// checkPicture asks for a picture of a preset, and checks its width.
func (e *endpoint) checkPicture(ctx context.Context, id string, preset settings.Preset) (foundPicture, error) {
	found, err := e.askPicture(ctx, id, preset.Name, "")
	if err == nil && found.width != preset.Width {
		err = fmt.Errorf("the picture of item %s has a width of %d, not %d", id, found.width, preset.Width)
	}
	return found, err
}
