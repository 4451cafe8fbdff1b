package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"

	"mediastack.dev/runtime/settings"
)

// presetParts are the parts of presets, in order. Each has a tenant and runtimes of its own.
var presetParts = []struct {
	name string
	run  func(*bench, context.Context) error
}{
	{"stored", (*bench).storedPictures},
	{"new", (*bench).newPictures},
	{"uploads", (*bench).uploadsBesidePictures},
	{"changed", (*bench).changedPreset},
	{"eager", (*bench).changedEagerPreset},
	{"one-picture", (*bench).onePicture},
}

// presets measures the pictures of presets: stored ones, new ones, what they cost uploads, a preset that changes, one of which
// the pictures are made in advance, and requests that must not make any.
func presets(ctx context.Context, b *bench) error {
	for _, part := range presetParts {
		if len(b.Only) > 0 && !slices.Contains(b.Only, part.name) {
			continue
		}
		if err := part.run(b, ctx); err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
		b.note("")
	}
	return nil
}

// checkParts checks the names of parts.
func checkParts(names []string) error {
	var known []string
	for _, part := range presetParts {
		known = append(known, part.name)
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			return fmt.Errorf("presets has no part %q: --only takes %s", name, strings.Join(known, ", "))
		}
	}
	return nil
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

// storePhotos uploads and seals public copies of an image.
func (e *endpoint) storePhotos(ctx context.Context, file []byte, name string, copies int) ([]document, error) {
	f := newForm(name, file, "access", "public")
	var stored []document
	for range copies {
		draft, err := e.store(ctx, f)
		if err != nil {
			return nil, err
		}
		item, err := e.seal(ctx, draft.MediaID)
		if err != nil {
			return nil, err
		}
		stored = append(stored, item)
	}
	return stored, nil
}

// picture gets the picture of a preset.
func (e *endpoint) picture(ctx context.Context, id, variant string) ([]byte, error) {
	return e.get(ctx, pictureAddress(id, variant))
}

func pictureAddress(id, variant string) string { return "/media/file/" + id + "/" + variant + "/bench" }

// photoFile makes a photo with so many pixels at full size.
func (b *bench) photoFile(width, height int, seed uint64) ([]byte, error) {
	side := func(n int) int { return max(64, int(float64(n)*math.Sqrt(b.Megapixels))) }
	return encodeJPEG(scene(side(width), side(height), seed))
}

// storedPictures compares pictures that are stored with files of the same bytes.
func (b *bench) storedPictures(ctx context.Context) error {
	t, e, err := b.serveTenant(ctx, "stored-pictures")
	if err != nil {
		return err
	}
	defer e.Stop()
	if err := e.declare(ctx, settings.Preset{Name: "hot", Width: 1100, Format: settings.FormatWebP}); err != nil {
		return err
	}
	photo, err := b.photoFile(1600, 1200, 1)
	if err != nil {
		return err
	}
	const copies = 16
	photos, err := e.storePhotos(ctx, photo, "bench.jpg", copies)
	if err != nil {
		return err
	}
	picture, err := e.picture(ctx, photos[0].MediaID, "hot")
	if err != nil {
		return err
	}
	files, err := e.storePhotos(ctx, picture, "bench.webp", copies)
	if err != nil {
		return err
	}
	of := func(items []document, variant string) call {
		return func(ctx context.Context, n int64) error {
			got, err := e.get(ctx, pictureAddress(items[n%copies].MediaID, variant))
			if err == nil && len(got) != len(picture) {
				err = fmt.Errorf("%d bytes came, not %d", len(got), len(picture))
			}
			return err
		}
	}
	size := fmt.Sprintf("%d KB", len(picture)/1000)
	sides := []side{{name: "picture", call: of(photos, "hot")}, {name: "file", call: of(files, "original")}}
	rounds, err := b.measureRounds(ctx, "stored "+size, load{clients: b.Clients, rounds: b.Rounds, length: b.Length}, sides...)
	if err != nil {
		return err
	}
	cost := func(rounds []round) []float64 { return b.costs(rounds, service, postgres, store) }
	pictures, plain := rates(rounds[0]), rates(rounds[1])
	results := []result{
		b.add(result{Benchmark: b.name, Case: "stored picture of " + size, Figure: "ratio of requests/s to a file's", Target: minimum(0.9),
			Inputs: map[string]float64{"picturesPerSecond": median(pictures), "filesPerSecond": median(plain)}}, ratios(pictures, plain)...),
		b.add(result{Benchmark: b.name, Case: "stored picture of " + size, Figure: "ratio of CPU time to a file's", Target: maximum(1.11),
			Inputs: map[string]float64{"pictureMilliseconds": median(cost(rounds[0])), "fileMilliseconds": median(cost(rounds[1]))}}, ratios(cost(rounds[0]), cost(rounds[1]))...),
	}
	shown := table{{"stored picture, " + size, "picture", "file", "ratio", "min", "max", "target", ""}}
	shown.row(append([]string{"requests/s", number(median(pictures)), number(median(plain))}, results[0].cells()...)...)
	shown.row(append([]string{"CPU ms of runtime, PostgreSQL and S3", fmt.Sprintf("%.3f", median(cost(rounds[0]))), fmt.Sprintf("%.3f", median(cost(rounds[1])))}, results[1].cells()...)...)
	for _, process := range []string{service, postgres, store} {
		shown.row("CPU ms, "+process, fmt.Sprintf("%.3f", median(b.costs(rounds[0], process))), fmt.Sprintf("%.3f", median(b.costs(rounds[1], process))))
	}
	shown.print(b.out)
	b.note("%d clients; public items, of which the rows are cached; a file is an upload of the picture's own bytes", b.Clients)
	return t.removeObjects("media")
}

// costs returns the CPU milliseconds of a call in each round: the sum of some processes.
func (b *bench) costs(rounds []round, processes ...string) []float64 {
	const tick = 0.001 // a short round may use no tick of the kernel's clock
	return figures(rounds, func(r round) float64 {
		sum := 0.0
		for _, process := range processes {
			sum += r.perCall(process)
		}
		return max(tick, sum)
	})
}

// forgetPictures ends all renditions, so that the next request for each makes it again. Runtimes must not cache their rows.
func (b *bench) forgetPictures(ctx context.Context) error {
	// The locks are taken in the order of the service: jobs whose clients have left may not have ended yet.
	return b.execute(ctx, `WITH locked AS MATERIALIZED (SELECT account_id FROM account_usage ORDER BY account_id FOR UPDATE)
		DELETE FROM rendition USING locked WHERE rendition.account_id = locked.account_id AND ready`)
}

// execute executes a statement as the administrator of the database.
func (b *bench) execute(ctx context.Context, statement string, args ...any) error {
	conn, err := pgx.Connect(ctx, b.env.server.AdminURL(database))
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	_, err = conn.Exec(ctx, statement, args...)
	return err
}

// noRowCache makes a runtime look for each rendition in the database.
const noRowCache = "SERVICE_RENDITION_CACHE_ENTRIES=0"

// metric reads a metric of a runtime; 0 if it is not there.
func (e *endpoint) metric(ctx context.Context, name string) (float64, error) {
	admin := *e
	admin.baseURL, admin.key = e.adminURL, ""
	text, err := admin.get(ctx, "/metrics")
	if err != nil {
		return 0, err
	}
	found := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(name) + ` (\S+)$`).FindSubmatch(text)
	if found == nil {
		return 0, fmt.Errorf("there is no metric %s", name)
	}
	return strconv.ParseFloat(string(found[1]), 64)
}

// oneAddressClients is how many clients ask for one picture at once.
const oneAddressClients = 100

// onePicture counts the jobs that many requests for one new picture start in two replicas, and those for addresses that
// no preset allows.
func (b *bench) onePicture(ctx context.Context) error {
	t, first, err := b.serveTenant(ctx, "one-picture")
	if err != nil {
		return err
	}
	defer first.Stop()
	second, err := b.env.serve(ctx, "runtime 2", t)
	if err != nil {
		return err
	}
	defer second.Stop()
	replicas := []*endpoint{first, second}
	jobs := func() (sum float64, err error) {
		for _, e := range replicas {
			n, failed := e.metric(ctx, "mediastack_rendition_jobs_total")
			sum, err = sum+n, errors.Join(err, failed)
		}
		return sum, err
	}
	if err := first.declare(ctx, settings.Preset{Name: "cold", Width: 1200, Format: settings.FormatWebP}); err != nil {
		return err
	}
	photo, err := b.photoFile(4000, 3000, 1)
	if err != nil {
		return err
	}
	photos, err := first.storePhotos(ctx, photo, "bench.jpg", 1)
	if err != nil {
		return err
	}
	id := photos[0].MediaID
	start, failed := make(chan struct{}), make([]error, oneAddressClients)
	var all sync.WaitGroup
	for n := range failed {
		all.Go(func() {
			<-start
			_, failed[n] = replicas[n%2].picture(ctx, id, "cold")
		})
	}
	close(start)
	all.Wait()
	if err := errors.Join(failed...); err != nil {
		return err
	}
	made, err := jobs()
	if err != nil {
		return err
	}
	if made != 1 {
		return fmt.Errorf("%d requests for one picture started %g jobs", oneAddressClients, made)
	}
	b.add(result{Benchmark: b.name, Case: fmt.Sprintf("%d clients at one new address of two replicas", oneAddressClients), Figure: "jobs", Target: maximum(1.5)}, made)
	b.note("%d clients at once at one new address, half of them at each of two replicas: %g job of the image workers", oneAddressClients, made)
	return b.unknownAddresses(ctx, first, id, jobs)
}

// unknownAddresses measures requests for addresses that no preset allows.
func (b *bench) unknownAddresses(ctx context.Context, e *endpoint, id string, jobs func() (float64, error)) error {
	before, err := jobs()
	if err != nil {
		return err
	}
	variants := []string{"cold@2x", "cold@1x", "cold.avif", "cold-%d", "w_%d,h_%d", "%dx%d", "cold@%dx"}
	ask := func(ctx context.Context, n int64) error {
		variant := strings.ReplaceAll(variants[n%int64(len(variants))], "%d", strconv.FormatInt(n, 10))
		_, err := e.do(ctx, http.MethodGet, pictureAddress(id, variant), nil, "", http.StatusNotFound)
		return err
	}
	found, err := b.measure(ctx, load{clients: b.Clients, calls: int64(b.Unknown)}, ask)
	if err != nil {
		return err
	}
	after, err := jobs()
	if err != nil {
		return err
	}
	if after != before {
		return fmt.Errorf("%d requests for addresses that no preset allows started %g jobs", b.Unknown, after-before)
	}
	cost := b.costs([]round{found}, service)
	b.add(result{Benchmark: b.name, Case: "address that no preset allows", Figure: "CPU ms, runtime"}, cost...)
	b.note("%d requests for addresses that no preset allows: 404, no job; CPU ms of one: %.3f of the runtime, %.3f of PostgreSQL, %.3f of S3; %s a second with %d clients on %d cores", b.Unknown,
		cost[0], found.perCall(postgres), found.perCall(store), number(found.perSecond), b.Clients, runtime.NumCPU())
	return nil
}
