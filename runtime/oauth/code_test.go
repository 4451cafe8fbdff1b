package oauth_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/oauth"
)

func TestOnlyTheNewestCodeOfItsOwnLoginIsRight(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *oauth.Config) { c.ResendAfter = 30 * time.Second })
	one, other := w.begin(t, ask()), w.begin(t, ask())
	must(t, one.send(t, owner))
	first := w.mailed(t, owner)[0]
	is(t, "a second code at once", one.send(t, owner), fault.Busy)
	w.clock.Advance(31 * time.Second)
	must(t, other.send(t, owner))
	foreign := w.mailed(t, owner)[0]
	w.clock.Advance(31 * time.Second)
	must(t, one.send(t, owner))
	newest := w.mailed(t, owner)[0]
	for name, code := range map[string]string{"the code before": first, "another login's": foreign} {
		if code == newest {
			continue // once in a hundred million
		}
		_, err := w.TryCode(t.Context(), one.request(t), code)
		is(t, name, err, fault.Invalid)
	}
	for _, text := range []string{"", "1234567", "123456789", "abcdefgh", "１２３４５６７８", newest + "0"} {
		_, err := w.TryCode(t.Context(), one.request(t), text)
		is(t, text, err, fault.Invalid)
	}
	before := one.cookie
	cookie, err := w.TryCode(t.Context(), one.request(t), newest[:4]+" "+newest[4:])
	must(t, err)
	if _, err := w.Find(t.Context(), one.id, before); !fault.Is(err, fault.NotFound) {
		t.Errorf("the cookie from before the login: %v", err)
	}
	one.cookie = cookie
	if r := one.request(t); !r.LoggedIn() || r.Address != owner {
		t.Errorf("after the code: %+v", r)
	}
	_, err = w.TryCode(t.Context(), one.request(t), newest)
	is(t, "the code again", err, fault.Conflict)
	if _, err := w.Find(t.Context(), other.id, one.cookie); !fault.Is(err, fault.NotFound) {
		t.Errorf("another login with this cookie: %v", err)
	}
}

func TestACodeExpires(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.begin(t, ask())
	must(t, b.send(t, owner))
	code := w.mailed(t, owner)[0]
	w.clock.Advance(10 * time.Minute)
	_, err := w.TryCode(t.Context(), b.request(t), code)
	is(t, "after its time", err, fault.Invalid)
	w.clock.Advance(5 * time.Minute)
	_, err = w.Find(t.Context(), b.id, b.cookie)
	is(t, "the login after its time", err, fault.NotFound)
}

// wrong is a code that is not right.
func wrong(right string) string {
	if right == "00000000" {
		return "00000001"
	}
	return "00000000"
}

func TestFiveTriesAtOnceAreFiveTries(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.begin(t, ask())
	must(t, b.send(t, owner))
	code := w.mailed(t, owner)[0]
	request := b.request(t)
	var mu sync.Mutex
	kinds := map[fault.Kind]int{}
	var trying sync.WaitGroup
	for range 20 {
		trying.Go(func() {
			_, err := w.TryCode(context.WithoutCancel(t.Context()), request, wrong(code))
			mu.Lock()
			defer mu.Unlock()
			kinds[fault.From(err).Kind]++
		})
	}
	trying.Wait()
	if kinds[fault.Invalid] != 4 || kinds[fault.NotFound] != 16 { // the fifth says that it was the last
		t.Errorf("answers: %v", kinds)
	}
	_, err := w.TryCode(t.Context(), request, code)
	is(t, "the right code after five wrong ones", err, fault.NotFound)
	w.clock.Advance(time.Minute)
	is(t, "another code after five wrong ones", b.send(t, owner), fault.NotFound)
}

func TestLimitsOfAnAddressHoldOverAllItsLogins(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var browsers []*browser
	for range 5 {
		b := w.begin(t, ask())
		must(t, b.send(t, owner))
		browsers = append(browsers, b)
	}
	late := w.begin(t, ask())
	err := late.send(t, owner)
	is(t, "a sixth code in an hour", err, fault.Busy)
	if wait := fault.From(err).RetryAfter; wait < 59*time.Minute || wait > time.Hour {
		t.Errorf("come back in %s", wait)
	}
	if late.request(t).Address != "" {
		t.Error("the refused code was written down")
	}
	must(t, late.send(t, "bo@example.org")) // others are not concerned
	codes := w.mailed(t, owner)
	if len(codes) != 5 {
		t.Fatalf("%d codes were mailed", len(codes))
	}
	for i := range 15 {
		_, err := w.TryCode(t.Context(), browsers[i/4].request(t), wrong(codes[i/4]))
		is(t, "a wrong code", err, fault.Invalid)
	}
	_, err = w.TryCode(t.Context(), browsers[4].request(t), codes[4])
	is(t, "the sixteenth try in an hour", err, fault.Busy)
	if tries := browsers[4].request(t).Tries; tries != 0 {
		t.Errorf("the refused try counts: %d", tries)
	}
	w.clock.Advance(time.Hour)
	late = w.begin(t, ask())
	late.enter(t, owner)
}

func TestANetworkAsksForTwentyCodes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i := range 20 {
		must(t, w.begin(t, ask()).send(t, string(rune('a'+i))+"@example.org"))
	}
	b := w.begin(t, ask())
	is(t, "one more", b.send(t, "z@example.org"), fault.Busy)
	must(t, w.SendCode(t.Context(), b.request(t), "z@example.org", "198.51.100.0/32"))
}

func TestOnlyOwnersGetMail(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.account(t, "other", "bo@example.org")
	for _, address := range []string{"stranger@example.org", "xana@example.org", "ana@example.org.evil.test", "ana+1@example.org"} {
		must(t, w.begin(t, ask()).send(t, address))
	}
	if emails, err := w.LeaseEmails(t.Context(), 100, time.Minute); err != nil || len(emails) != 0 {
		t.Errorf("letters for strangers: %v %v", emails, err)
	}
	if n := w.Number(t, "SELECT count(*) FROM email_outbox"); n != 0 {
		t.Errorf("%d letters for strangers stay", n)
	}
	must(t, w.begin(t, ask()).send(t, " ANA@example.org"))
	if codes := w.mailed(t, owner); len(codes) != 1 {
		t.Errorf("%d codes", len(codes))
	}
	for _, text := range []string{"", "ana", "ana@", "@example.org", "Ana <ana@example.org>", "ana@example.org\r\nBcc: x@example.org", "a b@example.org", strings.Repeat("a", 250) + "@example.org"} {
		is(t, text, w.begin(t, ask()).send(t, text), fault.Invalid)
	}
	w.ensure(t, func(s *account.Spec) { s.Suspended = true })
	must(t, w.begin(t, ask()).send(t, owner))
	if codes := w.mailed(t, owner); len(codes) != 0 {
		t.Error("a code for the owner of a suspended account")
	}
}

// The pause held for one login only: a person could be sent a code by each of many logins
// at once, and each at another replica.
func TestResendPause_HoldsForAnAddressOverLoginsAndReplicas(t *testing.T) {
	t.Parallel()
	for name, address := range map[string]string{"an owner's address": owner, "an address that owns nothing": "stranger@example.org"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := defaults
			cfg.CodesOfAddress, cfg.ResendAfter = 100, 30*time.Second
			w := newWorld(t, func(c *oauth.Config) { *c = cfg })
			replicas := []*oauth.Service{w.Service, w.service(t, cfg, "a")}
			var mu sync.Mutex
			var refused []error
			var sending sync.WaitGroup
			for n := range 8 {
				b := w.begin(t, ask())
				request := b.request(t)
				sending.Go(func() {
					err := replicas[n%2].SendCode(context.WithoutCancel(t.Context()), request, strings.ToUpper(address), network)
					mu.Lock()
					defer mu.Unlock()
					if err != nil {
						refused = append(refused, err)
					}
				})
			}
			sending.Wait()
			for _, err := range refused {
				is(t, "a code at the same time", err, fault.Busy)
				if f := fault.From(err); f.Public != "A code was sent just now." || f.RetryAfter <= 0 || f.RetryAfter > cfg.ResendAfter {
					t.Errorf("the refusal says %q, %s", f.Public, f.RetryAfter)
				}
			}
			if letters := w.Number(t, "SELECT count(*) FROM email_outbox"); len(refused) != 7 || letters != 1 {
				t.Errorf("%d of 8 were refused, %d letters wait", len(refused), letters)
			}
			late := w.begin(t, ask())
			must(t, late.send(t, "mistyped@example.org")) // another address need not wait
			w.clock.Advance(cfg.ResendAfter)
			must(t, late.send(t, address))
			is(t, "again", w.begin(t, ask()).send(t, address), fault.Busy)
		})
	}
}

// An owner with an apostrophe was refused, and one whose domain is international could
// be listed in its ASCII form only and log in by that form only.
func TestSendCode_AcceptsEverySpellingOfAnOwner(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.account(t, "other", "O'Brien@xn--bcher-kva.example")
	for _, text := range []string{"o'brien@xn--bcher-kva.example", "O'BRIEN@XN--BCHER-KVA.example", "o'brien@bücher.example", " O'Brien@Bücher.Example "} {
		must(t, w.begin(t, ask()).send(t, text))
		if codes := w.mailed(t, "o'brien@xn--bcher-kva.example"); len(codes) != 1 {
			t.Errorf("%q: %d codes", text, len(codes))
		}
		w.clock.Advance(time.Hour) // past every limit between two codes
	}
}

func TestConnection_OutlivesAnotherSpellingOfItsOwner(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tokens := w.connected(t)
	w.ensure(t, func(s *account.Spec) { s.Owners = []string{"bo@example.org", "ANA@Example.org", "ana@EXAMPLE.ORG"} })
	if !w.works(t, tokens.Access) {
		t.Error("the connection ended though its owner is still listed")
	}
	w.ensure(t, func(s *account.Spec) { s.Owners = []string{"bo@example.org"} })
	if w.works(t, tokens.Access) {
		t.Error("the connection works though its owner is listed in no spelling")
	}
}
