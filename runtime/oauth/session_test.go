package oauth_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/oauth"
)

// alive reports whether the browser still has its session.
func (b *loginBrowser) alive(t *testing.T) bool {
	t.Helper()
	_, err := b.w.FindLogin(t.Context(), b.id, b.cookie)
	if err != nil && !fault.Is(err, fault.NotFound) {
		t.Fatal(err)
	}
	return err == nil
}

// stillEnv is an environment whose clock only its test moves.
func stillEnv(t *testing.T, change ...func(*oauth.Config)) *env {
	t.Helper()
	w := newEnv(t, change...)
	w.clock.Freeze()
	return w
}

// user returns a browser that is logged in for the pages of the account.
func (w *env) user(t *testing.T) *loginBrowser {
	t.Helper()
	b := w.startLogin(t, nil)
	b.logIn(t, owner)
	return b
}

func TestExtendLogin_MovesTheEndWithUseUpToItsBound(t *testing.T) {
	t.Parallel()
	w := stillEnv(t)
	b := w.user(t)
	loggedIn := w.clock.Now()
	bound := loggedIn.Add(defaults.MaxTTL)
	if end := b.session(t).ExpiresAt; !end.Equal(loggedIn.Add(defaults.SessionTTL)) {
		t.Fatalf("after the login the session ends at %s", end)
	}
	w.clock.Advance(59 * time.Second)
	if _, extended := w.ExtendLogin(t.Context(), b.session(t), w.clock.Now()); extended {
		t.Error("a request of the first minute extends it")
	}
	for w.clock.Now().Add(10 * time.Minute).Before(bound) {
		w.clock.Advance(10 * time.Minute)
		want := w.clock.Now().Add(defaults.SessionTTL)
		if want.After(bound) {
			want = bound
		}
		extended, _ := w.ExtendLogin(t.Context(), b.session(t), w.clock.Now())
		if stored := b.session(t); !extended.ExpiresAt.Equal(want) || !stored.ExpiresAt.Equal(want) {
			t.Fatalf("at %s it ends at %s, and %s in the database; want %s", w.clock.Now().Sub(loggedIn), extended.ExpiresAt, stored.ExpiresAt, want)
		}
	}
	if _, extended := w.ExtendLogin(t.Context(), b.session(t), w.clock.Now()); extended {
		t.Error("it is extended past its bound")
	}
	w.clock.Advance(bound.Sub(w.clock.Now()) - time.Second)
	if !b.alive(t) {
		t.Error("it ended before its bound")
	}
	w.clock.Advance(time.Second)
	if b.alive(t) {
		t.Error("it goes on after its bound")
	}
}

func TestExtendLogin_ExtendsOnlyASessionInUse(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		arrange func(t *testing.T, w *env, b *loginBrowser) (oauth.LoginSession, time.Time)
		bound   time.Duration
		alive   bool
	}{
		"one that was logged out": {arrange: func(t *testing.T, w *env, b *loginBrowser) (oauth.LoginSession, time.Time) {
			session := b.session(t)
			w.clock.Advance(10 * time.Minute)
			must(t, w.EndLogin(t.Context(), session))
			return session, w.clock.Now()
		}},
		"one that has expired": {arrange: func(t *testing.T, w *env, b *loginBrowser) (oauth.LoginSession, time.Time) {
			session := b.session(t)
			w.clock.Advance(defaults.SessionTTL)
			return session, w.clock.Now()
		}},
		"that of another browser": {arrange: func(t *testing.T, w *env, b *loginBrowser) (oauth.LoginSession, time.Time) {
			session := b.session(t)
			session.CookieHash = account.Hash{1}
			w.clock.Advance(10 * time.Minute)
			return session, w.clock.Now()
		}, alive: true},
		"the cookie of before the login": {arrange: func(t *testing.T, w *env, _ *loginBrowser) (oauth.LoginSession, time.Time) {
			b := w.startLogin(t, nil)
			before := b.session(t)
			b.logIn(t, owner)
			session := b.session(t)
			session.CookieHash = before.CookieHash
			w.clock.Advance(10 * time.Minute)
			return session, w.clock.Now()
		}, alive: true},
		"one that is not logged in": {arrange: func(t *testing.T, w *env, _ *loginBrowser) (oauth.LoginSession, time.Time) {
			session := w.startLogin(t, nil).session(t)
			w.clock.Advance(10 * time.Minute)
			return session, w.clock.Now()
		}, alive: true},
		"one whose row is not logged in": {arrange: func(t *testing.T, w *env, _ *loginBrowser) (oauth.LoginSession, time.Time) {
			session, at := w.startLogin(t, nil).session(t), w.clock.Now()
			session.LoggedInAt = &at
			w.clock.Advance(10 * time.Minute)
			return session, w.clock.Now()
		}, alive: true},
		"that of an application": {arrange: func(t *testing.T, w *env, _ *loginBrowser) (oauth.LoginSession, time.Time) {
			b := w.startLogin(t, authorizationRequest())
			b.logIn(t, owner)
			session := b.session(t)
			w.clock.Advance(10 * time.Minute)
			return session, w.clock.Now()
		}, alive: true},
		"one whose row is that of an application": {arrange: func(t *testing.T, w *env, _ *loginBrowser) (oauth.LoginSession, time.Time) {
			b := w.startLogin(t, authorizationRequest())
			b.logIn(t, owner)
			session := b.session(t)
			session.AuthorizationRequest = nil
			w.clock.Advance(10 * time.Minute)
			return session, w.clock.Now()
		}, alive: true},
		"one without a bound": {arrange: func(t *testing.T, w *env, b *loginBrowser) (oauth.LoginSession, time.Time) {
			session := b.session(t)
			w.clock.Advance(10 * time.Minute)
			return session, w.clock.Now()
		}, bound: -1, alive: true},
		"with a state from before another request": {arrange: func(t *testing.T, w *env, b *loginBrowser) (oauth.LoginSession, time.Time) {
			before := b.session(t)
			w.clock.Advance(10 * time.Minute)
			if _, extended := w.ExtendLogin(t.Context(), before, w.clock.Now()); !extended {
				t.Fatal("it is not extended")
			}
			return before, w.clock.Now()
		}, alive: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := stillEnv(t, func(cfg *oauth.Config) {
				if c.bound < 0 {
					cfg.MaxTTL = 0
				}
			})
			b := w.user(t)
			session, validAt := c.arrange(t, w, b)
			ends := func() int64 {
				return w.QueryInt(t, "SELECT sum((extract(epoch FROM expires_at) * 1000000)::bigint)::bigint FROM login_session")
			}
			before := ends()
			after, extended := w.ExtendLogin(t.Context(), session, validAt)
			if extended || !after.ExpiresAt.Equal(session.ExpiresAt) || ends() != before {
				t.Errorf("it is extended: %t, to %s instead of %s; the ends in the database changed by %d µs", extended, after.ExpiresAt, session.ExpiresAt, ends()-before)
			}
			if b.alive(t) != c.alive {
				t.Errorf("the session goes on: %t", !c.alive)
			}
		})
	}
}

// A long upload began while the session was valid.
func TestExtendLogin_ExtendsWhatExpiredDuringTheRequest(t *testing.T) {
	t.Parallel()
	w := stillEnv(t)
	b := w.user(t)
	session, began := b.session(t), w.clock.Now()
	w.clock.Advance(time.Hour)
	if b.alive(t) {
		t.Fatal("it has not expired")
	}
	if session, extended := w.ExtendLogin(t.Context(), session, began); !extended || !session.ExpiresAt.Equal(w.clock.Now().Add(defaults.SessionTTL)) || !b.alive(t) {
		t.Errorf("it is extended: %t, to %s", extended, session.ExpiresAt)
	}
	// The upload of a day ends after the bound.
	session = b.session(t)
	began = w.clock.Now()
	w.clock.Advance(24 * time.Hour)
	if session, extended := w.ExtendLogin(t.Context(), session, began); b.alive(t) {
		t.Errorf("it goes on after its bound: %t, %s", extended, session.ExpiresAt)
	}
}

// Requests of several tabs and replicas move the end once, and a logout at the same time wins.
func TestExtendLogin_ConcurrentRequests(t *testing.T) {
	t.Parallel()
	w := stillEnv(t)
	replicas := []*oauth.Service{w.Service, w.service(t, defaults, "a")}
	for name, logout := range map[string]bool{"alone": false, "with a logout": true} {
		b := w.user(t)
		session := b.session(t)
		w.clock.Advance(10 * time.Minute)
		now := w.clock.Now()
		var mu sync.Mutex
		extensions := 0
		var requests sync.WaitGroup
		for n := range 12 {
			requests.Go(func() {
				if logout && n == 5 {
					if err := w.EndLogin(context.WithoutCancel(t.Context()), session); err != nil {
						t.Error(err)
					}
					return
				}
				_, extended := replicas[n%2].ExtendLogin(context.WithoutCancel(t.Context()), session, now)
				mu.Lock()
				defer mu.Unlock()
				if extended {
					extensions++
				}
			})
		}
		requests.Wait()
		if extensions > 1 || !logout && extensions != 1 || b.alive(t) == logout {
			t.Errorf("%s: extended %d times, goes on: %t", name, extensions, b.alive(t))
		}
	}
}

// codeSent returns a login whose code was sent and not entered.
func (w *env) codeSent(t *testing.T, request *oauth.AuthorizationRequest) *loginBrowser {
	t.Helper()
	b := w.startLogin(t, request)
	must(t, b.sendCode(t, owner))
	return b
}

// manyCodes raises the limits that the tests of continued logins are not about.
func manyCodes(c *oauth.Config) { c.CodesPerEmail, c.CodesPerIP, c.AttemptsPerEmail = 100, 100, 100 }

func TestCanContinue_ForTheSameThingOnly(t *testing.T) {
	t.Parallel()
	const pause = 30 * time.Second
	w := stillEnv(t, manyCodes, func(c *oauth.Config) { c.ResendAfter = pause })
	request := func(change func(*oauth.AuthorizationRequest)) *oauth.AuthorizationRequest {
		r := authorizationRequest()
		change(r)
		return r
	}
	same := func(*oauth.LoginSession) {}
	for name, c := range map[string]struct {
		first, second *oauth.AuthorizationRequest
		pending       func(*oauth.LoginSession)
		newer         func(*oauth.LoginSession)
		email         string
		want          bool
	}{
		"the pages of the account":   {want: true},
		"the same application":       {first: authorizationRequest(), second: authorizationRequest(), want: true},
		"another try of it":          {first: authorizationRequest(), second: request(func(r *oauth.AuthorizationRequest) { r.State, r.HasState, r.CodeChallenge = "x", true, "y" }), want: true},
		"an application, and pages":  {first: authorizationRequest()},
		"pages, and an application":  {second: authorizationRequest()},
		"another application":        {first: authorizationRequest(), second: request(func(r *oauth.AuthorizationRequest) { r.ClientID = "mcl_other" })},
		"another redirect URI":       {first: authorizationRequest(), second: request(func(r *oauth.AuthorizationRequest) { r.RedirectURI += "x" })},
		"another resource":           {first: authorizationRequest(), second: request(func(r *oauth.AuthorizationRequest) { r.Resource += "x" })},
		"more rights":                {first: authorizationRequest(), second: request(func(r *oauth.AuthorizationRequest) { r.Scopes = append(r.Scopes, oauth.ScopeDelete) })},
		"fewer rights":               {first: authorizationRequest(), second: request(func(r *oauth.AuthorizationRequest) { r.Scopes = r.Scopes[:1] })},
		"another address":            {email: "bo@example.org"},
		"an unsent code":             {pending: func(s *oauth.LoginSession) { s.CodeMAC = nil }},
		"a code without an end":      {pending: func(s *oauth.LoginSession) { s.CodeExpiresAt = nil }},
		"a code that has expired":    {pending: func(s *oauth.LoginSession) { s.CodeExpiresAt = new(w.clock.Now()) }},
		"no tries left":              {pending: func(s *oauth.LoginSession) { s.Attempts = defaults.MaxAttempts }},
		"one try left":               {pending: func(s *oauth.LoginSession) { s.Attempts = defaults.MaxAttempts - 1 }, want: true},
		"a code of before the pause": {pending: func(s *oauth.LoginSession) { s.CodeSentAt = new(s.CodeSentAt.Add(-pause)) }},
		"a complete login":           {pending: func(s *oauth.LoginSession) { s.LoggedInAt = new(w.clock.Now()) }},
		"for a complete login":       {newer: func(s *oauth.LoginSession) { s.LoggedInAt = new(w.clock.Now()) }},
	} {
		pending, newer := w.codeSent(t, c.first).session(t), w.startLogin(t, c.second).session(t)
		if c.pending == nil {
			c.pending = same
		}
		if c.newer == nil {
			c.newer = same
		}
		if c.email == "" {
			c.email = owner
		}
		c.pending(&pending)
		c.newer(&newer)
		if got := w.CanContinue(pending, newer, c.email); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
		if w.CanContinue(pending, pending, c.email) {
			t.Errorf("%s: a login continues itself", name)
		}
		w.clock.Advance(pause)
	}
}

// request returns an authorization request that its state tells from others.
func request(state string) *oauth.AuthorizationRequest {
	r := authorizationRequest()
	r.State, r.HasState = state, true
	return r
}

// stateOf returns the state of the request to which the login of a browser belongs.
func (b *loginBrowser) stateOf(t *testing.T) string {
	t.Helper()
	if r := b.session(t).AuthorizationRequest; r != nil {
		return r.State
	}
	return ""
}

func TestContinueLogin_JoinsTheNewerLogin(t *testing.T) {
	t.Parallel()
	w := stillEnv(t, manyCodes)
	pending, newer, bystander := w.codeSent(t, request("first")), w.startLogin(t, request("second")), w.startLogin(t, request("third"))
	code := w.mailedCodes(t, owner)[0]
	end := pending.session(t).ExpiresAt
	w.clock.Advance(time.Minute)
	must(t, w.ContinueLogin(t.Context(), pending.session(t), newer.session(t)))
	if newer.alive(t) || pending.stateOf(t) != "second" || bystander.stateOf(t) != "third" || !pending.session(t).ExpiresAt.Equal(end) {
		t.Errorf("the newer login goes on: %t; the pending one is for %q and ends at %s, want %s", newer.alive(t), pending.stateOf(t), pending.session(t).ExpiresAt, end)
	}
	cookie, err := w.VerifyCode(t.Context(), pending.session(t), code)
	must(t, err)
	pending.cookie = cookie
	if s := pending.session(t); !s.LoggedIn() || s.AuthorizationRequest == nil || s.AuthorizationRequest.State != "second" {
		t.Errorf("after the code: %+v", s)
	}
}

func TestContinueLogin_ChangesNothingOnceEitherHasEnded(t *testing.T) {
	t.Parallel()
	for name, arrange := range map[string]func(t *testing.T, w *env, pending, newer *loginBrowser, code string) (oauth.LoginSession, oauth.LoginSession){
		"the pending one has ended": func(t *testing.T, w *env, pending, newer *loginBrowser, _ string) (oauth.LoginSession, oauth.LoginSession) {
			session := pending.session(t)
			must(t, w.EndLogin(t.Context(), session))
			return session, newer.session(t)
		},
		"the newer one has ended": func(t *testing.T, w *env, pending, newer *loginBrowser, _ string) (oauth.LoginSession, oauth.LoginSession) {
			session := newer.session(t)
			must(t, w.EndLogin(t.Context(), session))
			return pending.session(t), session
		},
		"the pending one has expired": func(t *testing.T, w *env, pending, _ *loginBrowser, _ string) (oauth.LoginSession, oauth.LoginSession) {
			session := pending.session(t)
			w.clock.Advance(defaults.SessionTTL)
			return session, w.startLogin(t, request("late")).session(t)
		},
		// The newer one began first: its tab was left open until its login expired. "now" of EndLoginSession decides alone.
		"the newer one has expired": func(t *testing.T, w *env, _, newer *loginBrowser, _ string) (oauth.LoginSession, oauth.LoginSession) {
			session := newer.session(t)
			w.clock.Advance(defaults.SessionTTL / 2)
			valid := w.codeSent(t, request("valid")).session(t)
			w.clock.Advance(defaults.SessionTTL / 2)
			return valid, session
		},
		"both have expired": func(t *testing.T, w *env, pending, newer *loginBrowser, _ string) (oauth.LoginSession, oauth.LoginSession) {
			one, other := pending.session(t), newer.session(t)
			w.clock.Advance(defaults.SessionTTL)
			return one, other
		},
		"the code was entered meanwhile": func(t *testing.T, w *env, pending, newer *loginBrowser, code string) (oauth.LoginSession, oauth.LoginSession) {
			session := pending.session(t)
			cookie, err := w.VerifyCode(t.Context(), session, code)
			must(t, err)
			pending.cookie = cookie
			return pending.session(t), newer.session(t)
		},
		"the pending one is another browser's": func(t *testing.T, _ *env, pending, newer *loginBrowser, _ string) (oauth.LoginSession, oauth.LoginSession) {
			session := pending.session(t)
			session.CookieHash = account.Hash{1}
			return session, newer.session(t)
		},
		"the newer one is another browser's": func(t *testing.T, _ *env, pending, newer *loginBrowser, _ string) (oauth.LoginSession, oauth.LoginSession) {
			session := newer.session(t)
			session.CookieHash = account.Hash{1}
			return pending.session(t), session
		},
		"no code was sent": func(t *testing.T, w *env, _, newer *loginBrowser, _ string) (oauth.LoginSession, oauth.LoginSession) {
			return w.startLogin(t, request("unsent")).session(t), newer.session(t)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := stillEnv(t, manyCodes)
			pending, newer := w.codeSent(t, request("first")), w.startLogin(t, request("second"))
			one, other := arrange(t, w, pending, newer, w.mailedCodes(t, owner)[0])
			rows := func() [3]int64 {
				return [3]int64{
					w.QueryInt(t, "SELECT count(*) FROM login_session WHERE ended_at IS NULL"),
					w.QueryInt(t, "SELECT count(*) FROM login_session WHERE authorization_request->>'state' = 'first'"),
					w.QueryInt(t, "SELECT count(*) FROM login_session WHERE authorization_request->>'state' = 'second'"),
				}
			}
			before := rows()
			is(t, name, w.ContinueLogin(t.Context(), one, other), fault.NotFound)
			if after := rows(); after != before {
				t.Errorf("logins that go on, and those of each request: %v, not %v", after, before)
			}
		})
	}
}

// A form that is sent twice, two tabs, and a code that is entered at the same time.
func TestContinueLogin_ConcurrentRequests(t *testing.T) {
	t.Parallel()
	w := stillEnv(t, manyCodes)
	both := func(one, other func(ctx context.Context) error) (int, []error) {
		var errs [2]error
		var running sync.WaitGroup
		for n, act := range []func(context.Context) error{one, other} {
			running.Go(func() { errs[n] = act(context.WithoutCancel(t.Context())) })
		}
		running.Wait()
		done := 0
		for _, err := range errs {
			if err == nil {
				done++
			}
		}
		return done, errs[:]
	}
	continues := func(pending, newer *loginBrowser) func(context.Context) error {
		one, other := pending.session(t), newer.session(t)
		return func(ctx context.Context) error { return w.ContinueLogin(ctx, one, other) }
	}
	for range 10 {
		first, second, newer := w.codeSent(t, request("first")), w.codeSent(t, request("second")), w.startLogin(t, request("newer"))
		done, errs := both(continues(first, newer), continues(second, newer))
		joined := map[string]int{first.stateOf(t): 1}
		joined[second.stateOf(t)]++
		if done != 1 || joined["newer"] != 1 || newer.alive(t) {
			t.Fatalf("one login joined two at the same time: %d, %v, %v", done, errs, joined)
		}

		pending, one, other := w.codeSent(t, request("pending")), w.startLogin(t, request("one")), w.startLogin(t, request("other"))
		if done, errs := both(continues(pending, one), continues(pending, other)); done != 2 || one.alive(t) || other.alive(t) || pending.stateOf(t) == "pending" {
			t.Fatalf("two logins joined one at the same time: %d, %v, %s", done, errs, pending.stateOf(t))
		}

		left, right := w.codeSent(t, request("left")), w.codeSent(t, request("right"))
		if done, errs := both(continues(left, right), continues(right, left)); done != 1 || left.alive(t) == right.alive(t) {
			t.Fatalf("two logins joined each other: %d, %v; they go on: %t and %t", done, errs, left.alive(t), right.alive(t))
		}

		w.mailedCodes(t, owner)
		entered, late := w.codeSent(t, request("entered")), w.startLogin(t, request("late"))
		code := w.mailedCodes(t, owner)[0]
		session := entered.session(t)
		var cookie string
		done, errs = both(continues(entered, late), func(ctx context.Context) (err error) {
			cookie, err = w.VerifyCode(ctx, session, code)
			return err
		})
		entered.cookie = cookie
		// The login that the code completes has the request of either, and the other one is over only if it has its own.
		state := entered.stateOf(t)
		if errs[1] != nil || late.alive(t) != (state == "entered") || (errs[0] == nil) != (state == "late") {
			t.Fatalf("a code at the same time: %d, %v; the login is for %s, and the other one goes on: %t", done, errs, state, late.alive(t))
		}
	}
}
