package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/settings"
)

// pictureClients is how many clients ask for new pictures while another account uploads.
const pictureClients = 32

// uploadsBesidePictures compares uploads while another account asks for new pictures with uploads alone.
func (b *bench) uploadsBesidePictures(ctx context.Context) error {
	t, err := b.env.tenant(ctx, "uploads-beside-pictures")
	if err != nil {
		return err
	}
	busy, err := b.env.tenant(ctx, "gallery")
	if err != nil {
		return err
	}
	e, err := b.env.serve(ctx, service, t, noRowCache)
	if err != nil {
		return err
	}
	defer e.Stop()
	gallery := *e
	gallery.key = busy.APIKey
	addresses, err := b.newAddresses(ctx, &gallery)
	if err != nil {
		return err
	}
	small, err := b.photoFile(1200, 900, 4)
	if err != nil {
		return err
	}
	file, image := newForm("bench.bin", randomBytes(100_000)), newForm("bench.jpg", small)
	shown := table{{"uploads", "alone/s", "beside/s", "ratio", "min", "max", "alone p99, ms", "beside p99", "ratio", "pictures/s", "429/s", "cores of workers"}}
	for _, kind := range []struct {
		name string
		form form
	}{{"file of 100 KB", file}, {"image of " + sizeName(len(small)), image}} {
		upload := func(ctx context.Context, _ int64) error {
			_, err := e.store(ctx, kind.form)
			if isStatus(err, http.StatusTooManyRequests) {
				return fmt.Errorf("an upload must not be rejected because of another account's pictures: %w", err)
			}
			return err
		}
		var alone, beside []round
		var made, busy []float64
		for n := range b.Rounds + 1 { // the first one warms up
			for _, asks := range []bool{n%2 == 0, n%2 != 0} {
				var asked *pictureLoad
				if asks {
					asked = gallery.startPictures(ctx, addresses)
				}
				found, err := b.measure(ctx, load{clients: b.Clients, length: b.Length}, upload)
				if asks {
					err = errors.Join(err, asked.stop())
				}
				if err = errors.Join(err, b.forgetPictures(ctx), t.removeObjects("media")); err != nil {
					return err
				}
				b.say("%s: uploads, %s, beside pictures: %t: %s/s", b.name, kind.name, asks, number(found.perSecond))
				switch {
				case n == 0:
				case asks:
					beside = append(beside, found)
					made = append(made, float64(asked.made.Load())/found.took.Seconds())
					busy = append(busy, float64(asked.rejected.Load())/found.took.Seconds())
				default:
					alone = append(alone, found)
				}
			}
		}
		p99 := func(rounds []round) []float64 {
			return figures(rounds, func(r round) float64 { return r.percentile(0.99).Seconds() * 1000 })
		}
		name := kind.name + fmt.Sprintf(", beside %d clients of new pictures", pictureClients)
		rate := b.add(result{Benchmark: b.name, Case: name, Figure: "ratio of uploads/s to alone",
			Inputs: map[string]float64{"alonePerSecond": median(rates(alone)), "besidePerSecond": median(rates(beside))}}, ratios(rates(beside), rates(alone))...)
		slow := b.add(result{Benchmark: b.name, Case: name, Figure: "ratio of p99 to alone",
			Inputs: map[string]float64{"aloneMilliseconds": median(p99(alone)), "besideMilliseconds": median(p99(beside))}}, ratios(p99(beside), p99(alone))...)
		shown.row(kind.name, number(median(rates(alone))), number(median(rates(beside))), number(rate.Value), number(rate.Min), number(rate.Max),
			number(median(p99(alone))), number(median(p99(beside))), number(slow.Value), number(median(made)), number(median(busy)),
			fmt.Sprintf("%.2f", median(figures(beside, func(r round) float64 { return r.cpu[workers] / r.took.Seconds() }))))
	}
	shown.print(b.out)
	b.note("%d clients upload; %d clients of another account ask for pictures that were not made yet; everything shares the cores, so that the image workers take theirs from the uploads", b.Clients, pictureClients)
	return errors.Join(t.removeObjects("media"), busy.removeObjects("media"))
}

// newAddresses uploads photos, and returns the addresses of many pictures of them.
func (b *bench) newAddresses(ctx context.Context, e *endpoint) ([]string, error) {
	var declared []settings.Preset
	for n := range 32 {
		declared = append(declared, settings.Preset{Name: fmt.Sprintf("new-%d", n), Width: 300 + 20*n})
	}
	if err := e.declare(ctx, declared...); err != nil {
		return nil, err
	}
	photo, err := b.photoFile(1600, 1200, 5)
	if err != nil {
		return nil, err
	}
	photos, err := e.storePhotos(ctx, photo, "bench.jpg", 16)
	if err != nil {
		return nil, err
	}
	var addresses []string
	for _, preset := range declared {
		for _, format := range []string{"webp", "jpeg"} {
			for _, item := range photos {
				addresses = append(addresses, pictureAddress(item.MediaID, preset.Name+"."+format))
			}
		}
	}
	return addresses, nil
}

// pictureLoad is what clients do that ask for new pictures.
type pictureLoad struct {
	made, rejected atomic.Int64
	cancel         context.CancelFunc
	all            sync.WaitGroup
	failed         atomic.Pointer[error]
}

// startPictures starts clients that ask for the pictures of addresses, one after the other.
func (e *endpoint) startPictures(ctx context.Context, addresses []string) *pictureLoad {
	ctx, cancel := context.WithCancel(ctx)
	p := &pictureLoad{cancel: cancel}
	var next atomic.Int64
	for range pictureClients {
		p.all.Go(func() {
			for ctx.Err() == nil {
				_, err := e.get(ctx, addresses[next.Add(1)%int64(len(addresses))])
				switch {
				case ctx.Err() != nil:
				case err == nil:
					p.made.Add(1)
				case isStatus(err, http.StatusTooManyRequests):
					p.rejected.Add(1)
					_ = wait(100 * time.Millisecond)(ctx)
				default:
					p.failed.CompareAndSwap(nil, &err)
					return
				}
			}
		})
	}
	return p
}

// stop ends the clients, and returns the first error of one.
func (p *pictureLoad) stop() error {
	p.cancel()
	p.all.Wait()
	if err := p.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// renditionBytes is how large a rendition is that was never made.
const renditionBytes = 60_000

// pacedCall is one kind of the requests that come at an even pace.
type pacedCall struct {
	name   string
	call   call
	target *target
}

// changedPreset measures the requests of an account while the preset of its many stored pictures changes, and the purge
// ends them.
func (b *bench) changedPreset(ctx context.Context) error {
	t, e, err := b.serveTenant(ctx, "changed-preset")
	if err != nil {
		return err
	}
	defer e.Stop()
	before := settings.Preset{Name: "changes", Width: 800, Format: settings.FormatWebP}
	after := before
	after.Width = 900
	if err := e.declare(ctx, before); err != nil {
		return err
	}
	if err := b.makeRenditions(ctx, t, before); err != nil {
		return err
	}
	stored, err := b.storeFiles(ctx, e, 100_000, 16)
	if err != nil {
		return err
	}
	calls := besideCalls(e, stored)
	const endNow = "SERVICE_RENDITION_STALE_GRACE=0s"
	ended := func(found purgeSummary, err error, want int) error {
		if err == nil && found.RenditionsPurged != want {
			err = fmt.Errorf("of %d renditions the purge ended %d", want, found.RenditionsPurged)
		}
		return err
	}
	phases, err := b.runPhases(ctx, calls,
		phase{"warming up", wait(min(b.Idle, 3*time.Second))},
		phase{"before", wait(b.Idle)},
		phase{"renditions end", func(ctx context.Context) error {
			if err := e.declare(ctx, after); err != nil {
				return err
			}
			found, err := b.runPurge(ctx) // which finds that they are stale
			if err := ended(found, err, 0); err != nil {
				return err
			}
			found, err = b.runPurge(ctx, endNow)
			return ended(found, err, b.Renditions)
		}},
		phase{"objects removed", func(ctx context.Context) error {
			// As if the time had passed for which processes may have the rows in their caches.
			if err := b.execute(ctx, "UPDATE object_removal SET not_before = now()"); err != nil {
				return err
			}
			found, err := b.runPurge(ctx)
			if err == nil && found.RemovalsPending != 0 {
				err = fmt.Errorf("the purge left %d removals", found.RemovalsPending)
			}
			return err
		}},
		phase{"afterwards", wait(b.Idle)},
	)
	if err != nil {
		return err
	}
	const first, last = 1, 4
	shown := table{{"p99, ms", "before", "afterwards", "renditions end", "ratio", "target", "", "objects removed", "ratio", "target", ""}}
	for k, kind := range calls {
		row := []string{kind.name, milliseconds(phases[first].found[k].percentile(0.99)), milliseconds(phases[last].found[k].percentile(0.99))}
		for _, during := range phases[first+1 : last] {
			row = append(row, b.compareSlow(kind, k, during, phases[first], phases[last])...)
		}
		shown.row(row...)
	}
	shown.print(b.out)
	b.note("")
	b.printShares(phases[first:], []string{client, service, postgres, store, vips}, "cores of client", "runtime", "PostgreSQL", "S3", "purge") // the purge is the only program that is run and waited for
	b.note("%d items with a stored picture each; %d requests a second come at an even pace: as many of each kind; the purge runs twice after the preset has changed, without a grace period, and once more for the objects", b.Renditions, b.Pace)
	return t.removeObjects("media")
}

// besideCalls are the requests that come while the presets of their account change.
func besideCalls(e *endpoint, stored *files) []pacedCall {
	form := newForm("bench.bin", randomBytes(10_000))
	return []pacedCall{
		{"get", func(ctx context.Context, n int64) error {
			_, err := e.get(ctx, "/media/get/"+stored.of(n).MediaID)
			return err
		}, maximum(1.2)},
		{"list of 10", func(ctx context.Context, _ int64) error {
			_, err := e.get(ctx, "/media/get?limit=10")
			return err
		}, maximum(1.2)},
		{"download of 100 KB", stored.through(e), maximum(1.2)},
		{"upload of 10 KB", func(ctx context.Context, _ int64) error {
			_, err := e.store(ctx, form)
			return err
		}, nil},
	}
}

// phase is a time during which requests come at an even pace: until its activity ends.
type phase struct {
	name string
	act  func(context.Context) error
}

// measuredPhase is what was found in a phase.
type measuredPhase struct {
	name  string
	found []round // of each kind of requests
	took  time.Duration
	cpu   usage
}

// runPhases measures the requests of each kind in one phase after the other.
func (b *bench) runPhases(ctx context.Context, calls []pacedCall, phases ...phase) ([]measuredPhase, error) {
	var measured []measuredPhase
	for _, one := range phases {
		b.say("%s: %d requests a second, %s", b.name, b.Pace, one.name)
		before, err := b.env.cpu()
		if err != nil {
			return nil, err
		}
		started := time.Now()
		found, err := b.paced(ctx, calls, one.act)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", one.name, err)
		}
		took := time.Since(started)
		after, err := b.env.cpu()
		if err != nil {
			return nil, err
		}
		measured = append(measured, measuredPhase{one.name, found, took, after.since(before)})
	}
	return measured, nil
}

// compareSlow adds the ratio of the p99 of a kind of requests in a phase to that in the idle ones, and returns cells: p99,
// ratio, target.
func (b *bench) compareSlow(kind pacedCall, k int, during measuredPhase, idle ...measuredPhase) []string {
	var times []time.Duration
	for _, one := range idle {
		times = append(times, one.found[k].times...)
	}
	slices.Sort(times)
	usual, p99 := round{times: times}.percentile(0.99), during.found[k].percentile(0.99)
	one := b.add(result{Benchmark: b.name, Case: kind.name + ", " + during.name, Figure: "ratio of p99 to before and afterwards", Target: kind.target,
		Inputs: map[string]float64{"idleMilliseconds": usual.Seconds() * 1000, "milliseconds": p99.Seconds() * 1000}},
		max(0.001, float64(p99))/float64(max(1, usual)))
	return []string{milliseconds(p99), number(one.Value), one.Target.String(), one.targetText()}
}

// printShares prints the cores that processes used in each phase.
func (b *bench) printShares(phases []measuredPhase, processes []string, headings ...string) {
	shares := table{append([]string{"", "seconds", "requests"}, headings...)}
	for _, one := range phases {
		requests := 0
		for _, r := range one.found {
			requests += len(r.times)
		}
		row := []string{one.name, number(one.took.Seconds()), fmt.Sprint(requests)}
		for _, process := range processes {
			row = append(row, fmt.Sprintf("%.2f", one.cpu[process]/one.took.Seconds()))
		}
		shares.row(row...)
	}
	shares.print(b.out)
}

// paced sends requests of each kind in turns during an activity, and returns the sorted times of each.
func (b *bench) paced(ctx context.Context, calls []pacedCall, activity func(context.Context) error) ([]round, error) {
	running, stop := context.WithCancel(ctx)
	defer stop()
	found := make([]round, len(calls))
	var mu sync.Mutex
	loaded := make(chan error, 1)
	go func() {
		answers := context.WithoutCancel(ctx)
		loaded <- atPace(running, b.Pace, func(n int, due time.Time) error {
			kind := n % len(calls)
			err := calls[kind].call(answers, int64(n/len(calls)))
			took := time.Since(due)
			mu.Lock()
			defer mu.Unlock()
			found[kind].times = append(found[kind].times, took)
			return err
		})
	}()
	err := activity(ctx)
	stop()
	if err := errors.Join(err, <-loaded); err != nil {
		return nil, err
	}
	for i := range found {
		slices.Sort(found[i].times)
	}
	return found, nil
}

// makeRenditions loads items, each with a stored rendition of a preset, and all that is counted of them. Their objects are
// not in the store.
func (b *bench) makeRenditions(ctx context.Context, t tenant, preset settings.Preset) error {
	started := time.Now()
	if _, err := b.env.seed(ctx, t, seed{items: b.Renditions, access: third, object: func(id uuid.UUID) (string, int64) {
		return fmt.Sprintf(`[{"variant":"original","key":%q,"bytes":%d,"mimeType":"image/jpeg","sha256":"%064x"}]`, media.ObjectKey(id, media.Original), renditionBytes, id[8:]), renditionBytes
	}}); err != nil {
		return err
	}
	recipe := media.RecipeOf(preset, 1, preset.Format, nil).ID(media.EncoderVersion)
	for _, statement := range []struct {
		text string
		args []any
	}{
		{`INSERT INTO rendition (item_id, key, id, account_id, preset, recipe_id, ready, bytes, lease_ends, mime_type, width, height, sha256)
			SELECT id, sha256(id::text::bytea), gen_random_uuid(), account_id, $2::text, $3::bytea, true, $4::bigint, now(), 'image/webp', 800, 600, sha256(id::text::bytea)
			FROM stored_item WHERE account_id = $1::uuid`, []any{t.Account.ID, preset.Name, recipe[:], renditionBytes}},
		{`INSERT INTO rendition_total (account_id, preset, recipe_id, items, bytes)
			SELECT account_id, preset, recipe_id, count(*), sum(bytes) FROM rendition WHERE account_id = $1::uuid GROUP BY 1, 2, 3`, []any{t.Account.ID}},
		{`UPDATE account_usage SET bytes = account_usage.bytes + r.bytes, rendition_bytes = r.bytes
			FROM (SELECT sum(bytes)::bigint AS bytes FROM rendition WHERE account_id = $1::uuid) AS r WHERE account_usage.account_id = $1::uuid`, []any{t.Account.ID}},
	} {
		if err := b.execute(ctx, statement.text, statement.args...); err != nil {
			return fmt.Errorf("load renditions: %w", err)
		}
	}
	b.say("%s: %d items with renditions made in %s", b.name, b.Renditions, time.Since(started).Round(time.Second))
	return b.env.vacuum(ctx)
}
