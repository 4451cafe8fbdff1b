package oauth_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/oauth"
)

func TestVerifyCode_AcceptsOnlyTheNewestCodeOfItsSession(t *testing.T) {
	t.Parallel()
	w := newEnv(t, func(c *oauth.Config) { c.ResendAfter = 30 * time.Second })
	one, other := w.startLogin(t, authorizationRequest()), w.startLogin(t, authorizationRequest())
	must(t, one.sendCode(t, owner))
	first := w.mailedCodes(t, owner)[0]
	is(t, "a second code at once", one.sendCode(t, owner), fault.Busy)
	w.clock.Advance(31 * time.Second)
	must(t, other.sendCode(t, owner))
	foreign := w.mailedCodes(t, owner)[0]
	w.clock.Advance(31 * time.Second)
	must(t, one.sendCode(t, owner))
	newest := w.mailedCodes(t, owner)[0]
	for name, code := range map[string]string{"the code before": first, "another login's": foreign} {
		if code == newest {
			continue // once in a hundred million
		}
		_, err := w.VerifyCode(t.Context(), one.session(t), code)
		is(t, name, err, fault.Invalid)
	}
	for _, text := range []string{"", "1234567", "123456789", "abcdefgh", "１２３４５６７８", newest + "0"} {
		_, err := w.VerifyCode(t.Context(), one.session(t), text)
		is(t, text, err, fault.Invalid)
	}
	before := one.cookie
	cookie, err := w.VerifyCode(t.Context(), one.session(t), newest[:4]+" "+newest[4:])
	must(t, err)
	if _, err := w.FindLogin(t.Context(), one.id, before); !fault.Is(err, fault.NotFound) {
		t.Errorf("the cookie from before the login: %v", err)
	}
	one.cookie = cookie
	if r := one.session(t); !r.LoggedIn() || r.Email != owner {
		t.Errorf("after the code: %+v", r)
	}
	_, err = w.VerifyCode(t.Context(), one.session(t), newest)
	is(t, "the code again", err, fault.Conflict)
	if _, err := w.FindLogin(t.Context(), other.id, one.cookie); !fault.Is(err, fault.NotFound) {
		t.Errorf("another login with this cookie: %v", err)
	}
}

func TestVerifyCode_RejectsExpiredCode(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	b := w.startLogin(t, authorizationRequest())
	must(t, b.sendCode(t, owner))
	code := w.mailedCodes(t, owner)[0]
	w.clock.Advance(10 * time.Minute)
	_, err := w.VerifyCode(t.Context(), b.session(t), code)
	is(t, "after its time", err, fault.Invalid)
	w.clock.Advance(5 * time.Minute)
	_, err = w.FindLogin(t.Context(), b.id, b.cookie)
	is(t, "the login after its time", err, fault.NotFound)
}

// wrong is a code that is not right.
func wrong(right string) string {
	if right == "00000000" {
		return "00000001"
	}
	return "00000000"
}

func TestVerifyCode_CountsConcurrentAttempts(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	b := w.startLogin(t, authorizationRequest())
	must(t, b.sendCode(t, owner))
	code := w.mailedCodes(t, owner)[0]
	session := b.session(t)
	var mu sync.Mutex
	kinds := map[fault.Kind]int{}
	var trying sync.WaitGroup
	for range 20 {
		trying.Go(func() {
			_, err := w.VerifyCode(context.WithoutCancel(t.Context()), session, wrong(code))
			mu.Lock()
			defer mu.Unlock()
			kinds[fault.From(err).Kind]++
		})
	}
	trying.Wait()
	if kinds[fault.Invalid] != 4 || kinds[fault.NotFound] != 16 { // the fifth says that it was the last
		t.Errorf("answers: %v", kinds)
	}
	_, err := w.VerifyCode(t.Context(), session, code)
	is(t, "the right code after five wrong ones", err, fault.NotFound)
	w.clock.Advance(time.Minute)
	is(t, "another code after five wrong ones", b.sendCode(t, owner), fault.NotFound)
}

// Concurrent attempts hide whether five or six of them count.
func TestVerifyCode_TheFifthWrongCodeIsTheLastAttempt(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	b := w.startLogin(t, authorizationRequest())
	must(t, b.sendCode(t, owner))
	code := w.mailedCodes(t, owner)[0]
	session := b.session(t)
	for attempt := range 5 {
		_, err := w.VerifyCode(t.Context(), session, wrong(code))
		if want := []fault.Kind{fault.Invalid, fault.NotFound}[attempt/4]; !fault.Is(err, want) {
			t.Errorf("attempt %d: %v", attempt+1, err)
		}
	}
	_, err := w.VerifyCode(t.Context(), session, code)
	is(t, "the right code after five wrong ones", err, fault.NotFound)
}

// An owner with an apostrophe was rejected, and one whose domain is international could
// be listed in its ASCII form only and log in by that form only.
func TestSendCode_AcceptsEverySpellingOfAnOwner(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.account(t, "other", "O'Brien@xn--bcher-kva.example")
	for _, text := range []string{"o'brien@xn--bcher-kva.example", "O'BRIEN@XN--BCHER-KVA.example", "o'brien@bücher.example", " O'Brien@Bücher.Example "} {
		must(t, w.startLogin(t, authorizationRequest()).sendCode(t, text))
		if codes := w.mailedCodes(t, "o'brien@xn--bcher-kva.example"); len(codes) != 1 {
			t.Errorf("%q: %d codes", text, len(codes))
		}
		w.clock.Advance(time.Hour) // past every limit between two codes
	}
}
