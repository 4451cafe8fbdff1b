package rendition_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/postgres"
	"mediastack.dev/runtime/rendition"
)

// Each attempt of a client that left cost a decode and killed a worker.
func TestGet_EndsItsJobWithTheLastRequestUnlessAWorkerHasIt(t *testing.T) {
	t.Parallel()
	w := setup(t)
	one := w.tenant(t, 100_000)
	item := w.sealed(t, one.Principal, 500)
	w.renderer.gate, w.renderer.started, w.renderer.ended = make(chan struct{}), make(chan struct{}, 10), make(chan error, 10)

	// Two requests wait; one of them leaves.
	leaving, leave := context.WithCancel(t.Context())
	left, stayed := make(chan error), make(chan error)
	go func() {
		_, err := w.service.Get(leaving, item, one.owner, of("a", 100))
		left <- err
	}()
	<-w.renderer.started
	go func() {
		_, err := w.service.Get(t.Context(), item, one.owner, of("a", 100))
		stayed <- err
	}()
	wait.Until(t, "both wait", func() bool { return w.service.Waiting() == 2 })
	leave()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("the request that left: %v", err)
	}
	w.renderer.gate <- struct{}{}
	if err := <-stayed; err != nil {
		t.Errorf("the request that stayed: %v", err)
	}
	jobs(t, 1, w)

	// The only one leaves while a worker makes the picture: it is stored.
	leaving, leave = context.WithCancel(t.Context())
	go func() {
		_, err := w.service.Get(leaving, item, one.owner, of("a", 150))
		left <- err
	}()
	<-w.renderer.started
	leave()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("the request that left: %v", err)
	}
	w.renderer.gate <- struct{}{}
	wait.Until(t, "the picture that nobody waits for is stored", func() bool { return w.rows(t, one) == 2 })
	if result := w.get(t, one, item, of("a", 150)); !result.Stored() {
		t.Errorf("%+v", result)
	}
	jobs(t, 2, w)

	// The only one leaves before a worker is free.
	w.renderer.queue = make(chan struct{})
	leaving, leave = context.WithCancel(t.Context())
	go func() {
		_, err := w.service.Get(leaving, item, one.owner, of("a", 200))
		left <- err
	}()
	wait.Until(t, "it waits for a worker", func() bool { return w.renderer.jobs.Load() == 3 })
	leave()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("the only request: %v", err)
	}
	if err := <-w.renderer.ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the job that nobody needs: %v", err)
	}
	wait.Until(t, "its claim has ended", func() bool { return w.QueryInt(t, `SELECT count(*) FROM rendition WHERE NOT ready`) == 0 })
	w.balanced(t, one)
}

func TestGet_TakesOverTheClaimOfADeadProcess(t *testing.T) {
	t.Parallel()
	all := processes(t, 2)
	killed, other := all[0], all[1]
	one := killed.tenant(t, 100_000)
	item := killed.sealed(t, one.Principal, 500)
	request := of("a", 100)
	for name, die := range map[string]func(){
		"its lease has ended": func() { killed.exec(t, `UPDATE rendition SET lease_ends = now() - interval '1s' WHERE NOT ready`) },
		"its process was declared dead": func() {
			killed.exec(t, `UPDATE runtime_instance SET lease_ends = now() - interval '1s'`)
			must(t, check.ErrorOf(other.Store.Installations.TouchRuntime(t.Context(), uuid.New(), "test", time.Hour)))
			killed.exec(t, `UPDATE runtime_instance SET alive_since = now() - interval '2h' WHERE lease_ends > now()`)
		},
	} {
		must(t, check.ErrorOf(killed.Store.Installations.TouchRuntime(t.Context(), uuid.New(), "test", time.Hour)))
		request.Recipe.Width++
		original, _ := item.Objects.Find(media.Original)
		claim := rendition.Claim{ID: uuid.New(), Ref: rendition.Ref{ItemID: item.ID, Key: request.Recipe.Key(original.SHA256, media.EncoderVersion)}, AccountID: one.Account().ID, Preset: "a", Lease: time.Hour}
		if claimed, err := killed.Store.Pictures.ClaimRendition(t.Context(), claim); err != nil || !claimed {
			t.Fatal(claimed, err)
		}
		if claimed, err := killed.Store.Pictures.ClaimRendition(t.Context(), claim); err != nil || !claimed {
			t.Errorf("a claim whose answer was lost: %v, %v", claimed, err)
		}
		if reserved, err := killed.Store.Pictures.ReserveRendition(t.Context(), claim, 7000); err != nil || !reserved {
			t.Fatal(reserved, err)
		}
		impatient, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		if _, err := other.service.Get(impatient, item, one.owner, request); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: not yet, but %v", name, err)
		}
		cancel()
		jobs(t, 0, killed)
		die()
		before := other.metric(t, "mediastack_rendition_jobs_total")
		if result := other.get(t, one, item, request); !result.Stored() {
			t.Errorf("%s: %+v", name, result)
		}
		if after := other.metric(t, "mediastack_rendition_jobs_total"); after != before+1 {
			t.Errorf("%s: %v jobs", name, after-before)
		}
		// The process was only paused: it stores its object, and finds out.
		must(t, killed.Objects.Put(t.Context(), one.owner.Bucket, rendition.ObjectKey(item.ID, claim.ID), "image/webp", nopSeeker(), 1))
		if err := killed.Store.Pictures.FinishRendition(t.Context(), claim, rendition.Result{}); !errors.Is(err, rendition.ErrLost) {
			t.Errorf("%s: a claim that was lost is finished: %v", name, err)
		}
		must(t, killed.Store.Pictures.AbandonRendition(t.Context(), claim))
		if reserved, err := killed.Store.Pictures.ReserveRendition(t.Context(), claim, 1); !errors.Is(err, rendition.ErrLost) || reserved {
			t.Errorf("%s: %v, %v", name, reserved, err)
		}
	}
	if n := killed.rows(t, one); n != 2 {
		t.Errorf("%d rows", n)
	}
	killed.balanced(t, one)
}

// A process that was paused finishes nothing while another one makes the picture: the row would be that of an object which is
// not stored yet.
func TestFinish_OfALostClaimLeavesTheOneThatTookItOver(t *testing.T) {
	t.Parallel()
	all := processes(t, 2)
	paused, other := all[0], all[1]
	one := paused.tenant(t, 100_000)
	item := paused.sealed(t, one.Principal, 500)
	original, _ := item.Objects.Find(media.Original)
	ref := rendition.Ref{ItemID: item.ID, Key: of("a", 100).Recipe.Key(original.SHA256, media.EncoderVersion)}
	made := rendition.Result{Object: media.Object{MimeType: "image/webp", SHA256: original.SHA256}, Width: 1, Height: 1}
	var claims []rendition.Claim
	for _, process := range all {
		must(t, check.ErrorOf(process.Store.Installations.TouchRuntime(t.Context(), uuid.New(), "test", time.Hour)))
		claim := rendition.Claim{ID: uuid.New(), Ref: ref, AccountID: one.Account().ID, Preset: "a", Lease: time.Hour}
		if claimed, err := process.Store.Pictures.ClaimRendition(t.Context(), claim); err != nil || !claimed {
			t.Fatal(claimed, err)
		}
		if reserved, err := process.Store.Pictures.ReserveRendition(t.Context(), claim, 7000); err != nil || !reserved {
			t.Fatal(reserved, err)
		}
		claims = append(claims, claim)
		if process == paused {
			paused.exec(t, `UPDATE rendition SET lease_ends = now() - interval '1s'`)
		}
	}
	if err := paused.Store.Pictures.FinishRendition(t.Context(), claims[0], made); !errors.Is(err, rendition.ErrLost) || paused.rows(t, one) != 0 {
		t.Errorf("the claim that was lost: %v", err)
	}
	if err := other.Store.Pictures.FinishRendition(t.Context(), claims[1], made); err != nil || paused.rows(t, one) != 1 {
		t.Errorf("the claim that took it over: %v", err)
	}
}

// lateClaims is a database that commits a claim whose statement was canceled, after the answer.
type lateClaims struct {
	postgres.Pictures
	begun, left, abandoned chan struct{}
	committed              chan error
}

// ClaimRendition claims when the client has left.
func (l *lateClaims) ClaimRendition(ctx context.Context, claim rendition.Claim) (bool, error) {
	close(l.begun)
	<-l.left
	if ctx.Err() == nil {
		return l.Store.Pictures.ClaimRendition(ctx, claim)
	}
	go func() {
		<-l.abandoned
		_, err := l.Store.Pictures.ClaimRendition(context.WithoutCancel(ctx), claim)
		l.committed <- err
	}()
	return false, ctx.Err()
}

// AbandonRendition abandons a claim.
func (l *lateClaims) AbandonRendition(ctx context.Context, claim rendition.Claim) error {
	defer close(l.abandoned)
	return l.Store.Pictures.AbandonRendition(ctx, claim)
}

// The claim of a client that left while it was being committed kept all other requests waiting until its lease ended.
func TestGet_AClientThatLeavesLeavesNoClaim(t *testing.T) {
	t.Parallel()
	w := setup(t)
	one := w.tenant(t, 100_000)
	item := w.sealed(t, one.Principal, 500)
	store := &lateClaims{Pictures: w.Store.Pictures, begun: make(chan struct{}), left: make(chan struct{}), abandoned: make(chan struct{}), committed: make(chan error, 1)}
	deps := w.makerDeps(w.renderer)
	deps.Claims = store
	service, err := rendition.New(w.maker(t, deps), rendition.Deps{Store: store, Now: w.clock.Now})
	must(t, err)
	leaving, leave := context.WithCancel(t.Context())
	left := make(chan error)
	go func() {
		_, err := service.Get(leaving, item, one.owner, of("a", 100))
		left <- err
	}()
	<-store.begun
	leave()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("the request that left: %v", err)
	}
	close(store.left)
	<-store.abandoned
	wait.Until(t, "no claim is left", func() bool {
		select {
		case err := <-store.committed:
			must(t, err)
			t.Fatal("the statement of the claim ended with the client")
		default:
		}
		return service.Held() == 0 && w.rows(t, one) == 0
	})
	w.get(t, one, item, of("a", 100))
}
