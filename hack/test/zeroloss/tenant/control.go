package tenant

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"
)

// The requests of the test to a client. Each is answered with a Result.
const (
	// PathNext ends a phase and begins the next one; items of the former are not compared.
	PathNext = "/next"
	// PathFinish ends a phase and compares what was acknowledged in it.
	PathFinish = "/finish"
	// PathEnd ends the load, compares everything, and compares it with lists, counts and totals.
	PathEnd = "/end"
	// comparing is how many items are compared at a time.
	comparing = 8
	pageSize  = 100
)

func (t *Tenant) handler() http.Handler {
	mux := http.NewServeMux()
	for path, do := range map[string]func(context.Context) *Result{PathNext: t.next, PathFinish: t.finish, PathEnd: t.end} {
		mux.HandleFunc("POST "+path, func(w http.ResponseWriter, r *http.Request) {
			_ = json.NewEncoder(w).Encode(do(r.Context()))
		})
	}
	return mux
}

// next begins a phase when the requests of the stories that an outage held up are made up for.
func (t *Tenant) next(ctx context.Context) *Result {
	debt := max(0, -t.limiter.Tokens()) / t.config.Rate
	select {
	case <-time.After(time.Duration(debt * float64(time.Second))):
	case <-ctx.Done():
	}
	return &t.ledger.next().Result
}

func (t *Tenant) finish(ctx context.Context) *Result {
	former := t.ledger.next()
	t.compare(ctx, former, &former.Result)
	return &former.Result
}

func (t *Tenant) end(ctx context.Context) *Result {
	t.stop()
	t.stories.Wait()
	result := &t.ledger.next().Result
	live := t.compare(ctx, nil, result)
	if err := t.agree(ctx, live); err != nil {
		result.Problems = append(result.Problems, err.Error())
	}
	return result
}

// found is an item as the service has it.
type found struct {
	item
	document
	stored int64 // bytes of the file and what was derived from it
	err    error
}

// compare fetches every acknowledged item of a phase, or of all, that may exist.
func (t *Tenant) compare(ctx context.Context, p *phase, result *Result) []found {
	items := t.ledger.of(p)
	all := make([]found, len(items))
	var group errgroup.Group
	group.SetLimit(comparing)
	for n, i := range items {
		group.Go(func() error {
			all[n] = t.look(ctx, i)
			return nil
		})
	}
	_ = group.Wait() // each has its own error
	var live []found
	for _, f := range all {
		switch {
		case f.err != nil:
			result.Missing++
			result.MissingBytes += int64(f.size)
			if len(result.Problems) < maxTexts {
				result.Problems = append(result.Problems, f.id+": "+f.err.Error())
			}
		case f.state != deleted:
			result.Verified++
			result.VerifiedBytes += int64(f.size)
			live = append(live, f)
		}
	}
	return live
}

// look compares one item with what the service has.
func (t *Tenant) look(ctx context.Context, i *item) found {
	f := found{item: t.ledger.copy(i)}
	ask := t.get(i.id)
	if f.state == deleted {
		ask.want = http.StatusNotFound
		if _, f.err = t.do(ctx, ask); f.err != nil {
			f.err = fmt.Errorf("it was deleted: %w", f.err)
		}
		return f
	}
	got, there := t.present(ctx, &f, i, ask)
	if !there {
		return f
	}
	if f.document, f.err = decode(got, nil); f.err != nil {
		return f
	}
	if f.state == sealed && f.Temp {
		f.err = errors.New("it was sealed and is a draft")
		return f
	}
	if got, there = t.present(ctx, &f, i, f.original()); !there {
		return f
	}
	f.stored = int64(len(got.Body))
	if f.err = i.compare(got); f.err != nil {
		return f
	}
	for _, derived := range []string{f.Thumbnail, f.File} {
		if derived != "" && derived != f.original().url {
			if got, there = t.present(ctx, &f, i, request{method: http.MethodGet, url: derived, want: http.StatusOK}); !there {
				return f
			}
			f.stored += int64(len(got.Body))
		}
	}
	return f
}

// present sends a request about an item. What is not there may be deleted in the meantime, by its story.
func (t *Tenant) present(ctx context.Context, f *found, i *item, ask request) (got answer, there bool) {
	ask.mayLack = true
	if got, f.err = t.do(ctx, ask); f.err != nil {
		return got, false
	}
	if got.Status != http.StatusNotFound {
		return got, true
	}
	if now := t.ledger.copy(i).state; now == deleted || now == unknown {
		f.state = deleted
	} else {
		f.err = fmt.Errorf("%s was answered 404 %.200s", ask.url, got.Body)
	}
	return got, false
}

// agree compares the list, the count and the totals with the items that exist.
func (t *Tenant) agree(ctx context.Context, live []found) error {
	want, stored := map[string]bool{}, int64(0)
	for _, f := range live {
		if !f.Temp {
			want[f.id] = true
			stored += f.stored
		}
	}
	listed := map[string]bool{}
	for page := 1; ; page++ {
		var items []document
		if err := t.ask(ctx, fmt.Sprintf("/media/get?page=%d&limit=%d", page, pageSize), &items); err != nil {
			return err
		}
		for _, i := range items {
			listed[i.MediaID] = true
		}
		if len(items) < pageSize {
			break
		}
	}
	for id := range want {
		if !listed[id] {
			return fmt.Errorf("the list lacks %s, and has %d of %d items", id, len(listed), len(want))
		}
	}
	var counted struct {
		Count int `json:"count"`
	}
	var total struct {
		Storage int64 `json:"storage"`
	}
	if err := t.ask(ctx, "/media/get/count", &counted); err != nil {
		return err
	}
	if err := t.ask(ctx, "/media/get/size", &total); err != nil {
		return err
	}
	if len(listed) != len(want) || counted.Count != len(want) || total.Storage != stored {
		return fmt.Errorf("%d items of %d bytes are sealed; %d are listed, the count is %d, and the total %d bytes", len(want), stored, len(listed), counted.Count, total.Storage)
	}
	return nil
}

func (t *Tenant) ask(ctx context.Context, path string, into any) error {
	got, err := t.do(ctx, request{method: http.MethodGet, url: t.config.BaseURL + path, want: http.StatusOK})
	if err != nil {
		return err
	}
	return json.Unmarshal(got.Body, into)
}
