package oauth_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/oauth"
)

func TestRateLimit_HoldsPerEmailAcrossSessions(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	var browsers []*loginBrowser
	for range 5 {
		b := w.startLogin(t, authorizationRequest())
		must(t, b.sendCode(t, owner))
		browsers = append(browsers, b)
	}
	late := w.startLogin(t, authorizationRequest())
	err := late.sendCode(t, owner)
	is(t, "a sixth code in an hour", err, fault.Busy)
	if wait := fault.From(err).RetryAfter; wait < 59*time.Minute || wait > time.Hour {
		t.Errorf("come back in %s", wait)
	}
	if late.session(t).Email != "" {
		t.Error("the rejected code was stored")
	}
	must(t, late.sendCode(t, "bo@example.org")) // others are not concerned
	codes := w.mailedCodes(t, owner)
	if len(codes) != 5 {
		t.Fatalf("%d codes were mailed", len(codes))
	}
	for i := range 20 { // of which the first one in each of five logins is not counted
		_, err := w.VerifyCode(t.Context(), browsers[i%5].session(t), wrong(codes[i%5]))
		is(t, "a wrong code", err, fault.Invalid)
	}
	for i := range 5 {
		_, err = w.VerifyCode(t.Context(), browsers[i].session(t), codes[i])
		is(t, "one more try in the hour", err, fault.Busy)
		if attempts := browsers[i].session(t).Attempts; attempts != 4 {
			t.Errorf("the rejected attempt counts: %d", attempts)
		}
	}
	w.clock.Advance(time.Hour)
	late = w.startLogin(t, authorizationRequest())
	late.logIn(t, owner)
}

func TestRateLimit_HoldsPerNetwork(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	for i := range 20 {
		must(t, w.startLogin(t, authorizationRequest()).sendCode(t, string(rune('a'+i))+"@example.org"))
	}
	b := w.startLogin(t, authorizationRequest())
	is(t, "one more", b.sendCode(t, "z@example.org"), fault.Busy)
	must(t, w.SendCode(t.Context(), b.session(t), "z@example.org", "198.51.100.0/32"))
}

// Anyone who knew an address could use up all codes of it, so that its owner could not log in for an hour.
func TestRateLimit_SomeoneElseLeavesTheOwnerCodes(t *testing.T) {
	t.Parallel()
	w := newEnv(t, func(c *oauth.Config) { c.ResendAfter = 30 * time.Second })
	const elsewhere = "198.51.100.7/32"
	mine := w.startLogin(t, authorizationRequest())
	must(t, mine.sendCode(t, owner))
	first := w.mailedCodes(t, owner)[0]
	sent := 0
	for range 20 {
		b := w.startLogin(t, authorizationRequest())
		if err := w.SendCode(t.Context(), b.session(t), owner, elsewhere); err == nil {
			sent++
		}
		w.clock.Advance(16 * time.Second)
	}
	if sent != 5 {
		t.Errorf("someone else got %d codes sent", sent)
	}
	others := w.mailedCodes(t, owner)
	// The code of the browser that asked before is still good, and those of others are of no use in it.
	_, err := w.VerifyCode(t.Context(), mine.session(t), others[0])
	is(t, "the code of another login", err, fault.Invalid)
	_, err = w.VerifyCode(t.Context(), mine.session(t), first)
	must(t, err)
	// The owner gets as many as without others: the first one and four more.
	for range 4 {
		w.clock.Advance(time.Minute)
		must(t, w.startLogin(t, authorizationRequest()).sendCode(t, owner))
	}
	w.clock.Advance(time.Minute)
	is(t, "a sixth code of the owner", w.startLogin(t, authorizationRequest()).sendCode(t, owner), fault.Busy)
	// All together have a limit, too: a mailbox is not filled from many networks.
	is(t, "an eleventh code", w.SendCode(t.Context(), w.startLogin(t, authorizationRequest()).session(t), owner, "203.0.113.9/32"), fault.Busy)
}

// Fifteen wrong codes, entered by anyone who knew an address, kept its owner from logging in for an hour.
func TestRateLimit_WrongCodesOfSomeoneElseLeaveTheOwnerTheFirstTry(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	const elsewhere = "198.51.100.7/32"
	var others []*loginBrowser
	guess := func(kind fault.Kind) {
		t.Helper()
		for range 4 {
			for _, b := range others {
				_, err := w.VerifyCode(t.Context(), b.session(t), "00000000")
				is(t, "a guess", err, kind)
			}
		}
	}
	for range 5 {
		b := w.startLogin(t, authorizationRequest())
		must(t, w.SendCode(t.Context(), b.session(t), owner, elsewhere))
		others = append(others, b)
	}
	before := w.startLogin(t, authorizationRequest())
	must(t, before.sendCode(t, owner))
	codes := w.mailedCodes(t, owner)
	guess(fault.Invalid) // 5 first ones, and 15 that count
	guess(fault.Busy)
	_, err := w.VerifyCode(t.Context(), before.session(t), codes[len(codes)-1])
	must(t, err) // of a login that began before
	after := w.startLogin(t, authorizationRequest())
	after.logIn(t, owner)
	// A second try in one login is as good as another guess.
	mistyped := w.startLogin(t, authorizationRequest())
	must(t, mistyped.sendCode(t, owner))
	code := w.mailedCodes(t, owner)[0]
	_, err = w.VerifyCode(t.Context(), mistyped.session(t), wrong(code))
	is(t, "a mistyped code", err, fault.Invalid)
	_, err = w.VerifyCode(t.Context(), mistyped.session(t), code)
	is(t, "a second try", err, fault.Busy)
	// The first tries of logins that are begun at once are bounded by their codes, and each login has one.
	var first atomic.Int64
	var trying sync.WaitGroup
	session := w.startLogin(t, authorizationRequest())
	must(t, session.sendCode(t, owner))
	of := session.session(t)
	for range 8 {
		trying.Go(func() {
			if _, err := w.VerifyCode(context.WithoutCancel(t.Context()), of, "00000000"); fault.Is(err, fault.Invalid) {
				first.Add(1)
			}
		})
	}
	trying.Wait()
	if first.Load() != 1 {
		t.Errorf("%d tries at once are compared, want the first one", first.Load())
	}
}

// The limit held for one session only: many sessions could send a code to the same address
// at once, each through another replica. Two may, so that a second login need not wait.
func TestResendLimit_HoldsPerEmailAcrossSessionsAndReplicas(t *testing.T) {
	t.Parallel()
	for name, email := range map[string]string{"an owner's address": owner, "an address that owns nothing": "unknown@example.org"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := defaults
			cfg.CodesPerEmail, cfg.ResendAfter = 100, 30*time.Second
			w := newEnv(t, func(c *oauth.Config) { *c = cfg })
			replicas := []*oauth.Service{w.Service, w.service(t, cfg, "a")}
			var mu sync.Mutex
			var rejected []error
			var sending sync.WaitGroup
			for n := range 8 {
				b := w.startLogin(t, authorizationRequest())
				session := b.session(t)
				sending.Go(func() {
					err := replicas[n%2].SendCode(context.WithoutCancel(t.Context()), session, strings.ToUpper(email), network)
					mu.Lock()
					defer mu.Unlock()
					if err != nil {
						rejected = append(rejected, err)
					}
				})
			}
			sending.Wait()
			for _, err := range rejected {
				is(t, "a code at the same time", err, fault.Busy)
				if f := fault.From(err); !errors.Is(err, oauth.ReasonResendTooSoon) || f.RetryAfter <= 0 || f.RetryAfter > cfg.ResendAfter {
					t.Errorf("the error is %v, retry after %s", err, f.RetryAfter)
				}
			}
			if queued := w.QueryInt(t, "SELECT count(*) FROM work"); len(rejected) != 6 || queued != 2 {
				t.Errorf("%d of 8 rejected, %d e-mails queued", len(rejected), queued)
			}
			late := w.startLogin(t, authorizationRequest())
			must(t, late.sendCode(t, "mistyped@example.org")) // another address need not wait
			w.clock.Advance(cfg.ResendAfter)
			must(t, late.sendCode(t, email))
			must(t, w.startLogin(t, authorizationRequest()).sendCode(t, email))
			is(t, "a third login", w.startLogin(t, authorizationRequest()).sendCode(t, email), fault.Busy)
		})
	}
}

// The code that an address has left in the pause is for another login: who presses twice has one mail.
func TestResendLimit_HoldsInOneLogin(t *testing.T) {
	t.Parallel()
	cfg := defaults
	cfg.ResendAfter = 30 * time.Second
	w := newEnv(t, func(c *oauth.Config) { *c = cfg })
	replicas := []*oauth.Service{w.Service, w.service(t, cfg, "a")}
	b := w.startLogin(t, authorizationRequest())
	session := b.session(t)
	var sent atomic.Int64
	var sending sync.WaitGroup
	for n := range 8 {
		sending.Go(func() {
			if replicas[n%2].SendCode(context.WithoutCancel(t.Context()), session, owner, network) == nil {
				sent.Add(1)
			}
		})
	}
	sending.Wait()
	if codes := w.mailedCodes(t, owner); sent.Load() != 1 || len(codes) != 1 {
		t.Errorf("%d requests of one login are accepted, %d codes are mailed", sent.Load(), len(codes))
	}
	// A rejected request takes nothing of what another login has left.
	must(t, w.startLogin(t, authorizationRequest()).sendCode(t, owner))
	w.clock.Advance(cfg.ResendAfter)
	must(t, b.sendCode(t, owner))
}
