package login_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/hack/stack/stacktest"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/auth"
	"mediastack.dev/runtime/internal/edgetest"
	"mediastack.dev/runtime/login"
)

func TestMain(m *testing.M) { stacktest.Main(m) }

const (
	owner    = "ana@example.org"
	client   = "mcl_test"
	redirect = "http://127.0.0.1:1/callback"
	verifier = "a-verifier-of-forty-three-characters-or-more-0"
	network  = "192.0.2.1/32"
)

// world is a database with an account that ana owns, and the service over it.
type world struct {
	*edgetest.World
	*login.Service
	tenant edgetest.Tenant
	clock  *edgetest.Clock
	logs   *edgetest.Log
}

func newWorld(t *testing.T, change ...func(*login.Config)) *world {
	t.Helper()
	w := &world{World: edgetest.New(t), clock: &edgetest.Clock{}, logs: &edgetest.Log{}}
	w.tenant = w.account(t, "studio", owner)
	cfg := login.Config{RequestTTL: 15 * time.Minute, CodeTTL: 10 * time.Minute, CodeTries: 5, ResendAfter: 30 * time.Second, CodesOfAddress: 5, TriesOfAddress: 15, CodesOfClient: 20,
		GrantCodeTTL: time.Minute, AccessTTL: time.Hour, RefreshTTL: 720 * time.Hour, RefreshGrace: 90 * time.Second, Registrations: 3}
	for _, apply := range change {
		apply(&cfg)
	}
	w.Service = w.service(t, cfg, "a")
	return w
}

func (w *world) service(t *testing.T, cfg login.Config, secretLetter string) *login.Service {
	t.Helper()
	secret, err := edgetest.Credentials(secretLetter).ServerSecret()
	must(t, err)
	signer, err := secret.Signer(auth.ForLogins)
	must(t, err)
	sealer, err := secret.Sealer(auth.ForLetters)
	must(t, err)
	service, err := login.NewService(cfg, login.Parts{Store: w.Store, Signer: signer, Sealer: sealer, Now: w.clock.Now, Log: w.logs.Logger()})
	must(t, err)
	return service
}

func (w *world) account(t *testing.T, name string, owners ...string) edgetest.Tenant {
	t.Helper()
	return w.Tenant(t, account.Spec{Name: name, Owners: owners, MaxStorage: 1 << 20, MaxUploadSize: 1 << 20})
}

// ensure changes an account as the operator does.
func (w *world) ensure(t *testing.T, change func(*account.Spec)) {
	t.Helper()
	spec := w.tenant.Spec
	spec.Namespace = "team"
	change(&spec)
	_, err := w.Registry.Ensure(t.Context(), spec)
	must(t, err)
}

func ask() *login.Ask {
	sum := sha256.Sum256([]byte(verifier))
	return &login.Ask{ClientID: client, ClientName: "Test", RedirectURI: redirect, Scopes: []login.Scope{login.ScopeRead, login.ScopeWrite},
		Resource: edgetest.BaseURL + "/mcp", Challenge: base64.RawURLEncoding.EncodeToString(sum[:])}
}

// browser is a login of one browser.
type browser struct {
	w      *world
	id     uuid.UUID
	cookie string
}

func (w *world) begin(t *testing.T, what *login.Ask) *browser {
	t.Helper()
	request, cookie, err := w.Begin(t.Context(), what)
	must(t, err)
	return &browser{w: w, id: request.ID, cookie: cookie}
}

func (b *browser) request(t *testing.T) login.Request {
	t.Helper()
	request, err := b.w.Find(t.Context(), b.id, b.cookie)
	must(t, err)
	return request
}

// mailed gives the codes that were mailed to an address, oldest first.
func (w *world) mailed(t *testing.T, address string) []string {
	t.Helper()
	letters, err := w.Claim(t.Context(), 1000, time.Minute)
	must(t, err)
	var codes []string
	for _, letter := range letters {
		if letter.To == address {
			codes = append(codes, letter.Code)
		}
		must(t, w.Sent(t.Context(), letter.ID))
	}
	return codes
}

func (b *browser) send(t *testing.T, address string) error {
	t.Helper()
	return b.w.SendCode(t.Context(), b.request(t), address, network)
}

// enter proves an address.
func (b *browser) enter(t *testing.T, address string) {
	t.Helper()
	must(t, b.send(t, address))
	codes := b.w.mailed(t, address)
	if len(codes) != 1 {
		t.Fatalf("%d codes were mailed", len(codes))
	}
	cookie, err := b.w.TryCode(t.Context(), b.request(t), codes[0])
	must(t, err)
	b.cookie = cookie
}

// granted is an authorization code of a whole login.
func (w *world) granted(t *testing.T) string {
	t.Helper()
	b := w.begin(t, ask())
	b.enter(t, owner)
	code, err := w.Allow(t.Context(), b.request(t), w.tenant.Account.ID)
	must(t, err)
	return code
}

func redemption(code string) login.Redemption {
	return login.Redemption{Code: code, ClientID: client, RedirectURI: redirect, Verifier: verifier}
}

// connected are the tokens of a whole login.
func (w *world) connected(t *testing.T) login.Tokens {
	t.Helper()
	tokens, err := w.Redeem(t.Context(), redemption(w.granted(t)))
	must(t, err)
	return tokens
}

// works tells whether an access token stands for somebody.
func (w *world) works(t *testing.T, access string) bool {
	t.Helper()
	hash, ok := login.AccessTokenHash(access)
	if !ok {
		t.Fatal("no access token")
	}
	session, err := w.Store.FindSession(t.Context(), hash)
	if fault.Is(err, fault.NotFound) {
		return false
	}
	must(t, err)
	return !session.Account.Suspended && (session.Key.ExpiresAt == nil || w.clock.Now().Before(*session.Key.ExpiresAt))
}

func is(t *testing.T, what string, err error, kind fault.Kind) {
	t.Helper()
	if !fault.Is(err, kind) {
		t.Errorf("%s: %v, want %s", what, err, kind)
	}
}

func TestOnlyTheNewestCodeOfItsOwnLoginIsRight(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one, other := w.begin(t, ask()), w.begin(t, ask())
	must(t, one.send(t, owner))
	first := w.mailed(t, owner)[0]
	is(t, "a second code at once", one.send(t, owner), fault.Busy)
	must(t, other.send(t, owner))
	foreign := w.mailed(t, owner)[0]
	w.clock.Advance(31 * time.Second)
	must(t, one.send(t, owner))
	newest := w.mailed(t, owner)[0]
	for name, code := range map[string]string{"the code before": first, "another login's": foreign} {
		if code == newest {
			continue // once in a million
		}
		_, err := w.TryCode(t.Context(), one.request(t), code)
		is(t, name, err, fault.Invalid)
	}
	for _, text := range []string{"", "12345", "1234567", "abcdef", "１２３４５６", newest + "0"} {
		_, err := w.TryCode(t.Context(), one.request(t), text)
		is(t, text, err, fault.Invalid)
	}
	before := one.cookie
	cookie, err := w.TryCode(t.Context(), one.request(t), newest[:3]+" "+newest[3:])
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
	if right == "000000" {
		return "000001"
	}
	return "000000"
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
			kinds[fault.Of(err).Kind]++
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
	if wait := fault.Of(err).RetryAfter; wait < 59*time.Minute || wait > time.Hour {
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
	if letters, err := w.Claim(t.Context(), 100, time.Minute); err != nil || len(letters) != 0 {
		t.Errorf("letters for strangers: %v %v", letters, err)
	}
	if n := w.Number(t, "SELECT count(*) FROM letter"); n != 0 {
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

func TestNothingReadableIsKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.begin(t, ask())
	must(t, b.send(t, owner))
	letters, err := w.Claim(t.Context(), 10, time.Minute)
	must(t, err)
	b.cookie, err = w.TryCode(t.Context(), b.request(t), letters[0].Code)
	must(t, err)
	code, err := w.Allow(t.Context(), b.request(t), w.tenant.Account.ID)
	must(t, err)
	tokens, err := w.Redeem(t.Context(), redemption(code))
	must(t, err)
	for name, secret := range map[string]string{"code": letters[0].Code, "cookie": b.cookie, "authorization code": code, "access token": tokens.Access, "refresh token": tokens.Refresh} {
		for _, table := range []string{"login_request", "login_grant", "login_code", "login_token", "letter"} {
			found := w.Number(t, "SELECT count(*) FROM "+table+" x WHERE x::text LIKE '%' || $1 || '%' OR x::text LIKE '%' || encode(convert_to($1, 'UTF8'), 'hex') || '%'", secret)
			if name == "code" && table != "letter" {
				continue // six digits stand in many a hash
			}
			if found != 0 {
				t.Errorf("the %s can be read in %s", name, table)
			}
		}
		if strings.Contains(w.logs.String(), secret) {
			t.Errorf("the %s is in the log", name)
		}
	}
	if strings.Contains(w.logs.String(), owner) || !strings.Contains(w.logs.String(), "a***@example.org") {
		t.Errorf("addresses in the log: %s", w.logs.String())
	}
}

func TestACodeIsRedeemedOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	code := w.granted(t)
	var mu sync.Mutex
	var given []login.Tokens
	var redeeming sync.WaitGroup
	for range 20 {
		redeeming.Go(func() {
			tokens, err := w.Redeem(context.WithoutCancel(t.Context()), redemption(code))
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				given = append(given, tokens)
			} else if !errors.Is(err, login.ErrRefused) {
				t.Error(err)
			}
		})
	}
	redeeming.Wait()
	if len(given) != 1 {
		t.Fatalf("%d redemptions", len(given))
	}
	if w.works(t, given[0].Access) {
		t.Error("what a code gave that was sent again still works")
	}
	if _, err := w.Refresh(t.Context(), given[0].Refresh, client, ""); !errors.Is(err, login.ErrRefused) {
		t.Errorf("its refresh token: %v", err)
	}
}

func TestARedemptionThatDoesNotFitEndsTheGrant(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, change := range map[string]func(*login.Redemption){
		"verifier":     func(r *login.Redemption) { r.Verifier += "x" },
		"client":       func(r *login.Redemption) { r.ClientID = "mcl_other" },
		"redirect URI": func(r *login.Redemption) { r.RedirectURI += "x" },
		"resource":     func(r *login.Redemption) { r.Resource = "http://other.test/mcp" },
		"late":         func(*login.Redemption) { w.clock.Advance(time.Minute) },
	} {
		sent := redemption(w.granted(t))
		change(&sent)
		if _, err := w.Redeem(t.Context(), sent); !errors.Is(err, login.ErrRefused) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := w.Redeem(t.Context(), redemption(sent.Code)); !errors.Is(err, login.ErrRefused) {
			t.Errorf("%s, and then right: %v", name, err)
		}
		w.clock.Advance(time.Hour) // limits of the address
	}
	for _, text := range []string{"", "x", "mac_" + strings.Repeat("a", 43), "mac_" + strings.Repeat("a", 5000)} {
		if _, err := w.Redeem(t.Context(), redemption(text)); !errors.Is(err, login.ErrRefused) {
			t.Errorf("%.20q: %v", text, err)
		}
	}
}

func TestARefreshTokenWorksAgainWithinItsGraceOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tokens := w.connected(t)
	var mu sync.Mutex
	pairs := []login.Tokens{}
	var refreshing sync.WaitGroup
	for range 15 {
		refreshing.Go(func() {
			pair, err := w.Refresh(context.WithoutCancel(t.Context()), tokens.Refresh, client, "")
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				pairs = append(pairs, pair)
			} else if !errors.Is(err, login.ErrRefused) {
				t.Error(err)
			}
		})
	}
	refreshing.Wait()
	if len(pairs) != 10 {
		t.Errorf("%d pairs within the grace", len(pairs))
	}
	for _, pair := range pairs {
		if !w.works(t, pair.Access) {
			t.Error("a pair of the grace does not work")
		}
	}
	w.clock.Advance(90 * time.Second)
	next, err := w.Refresh(t.Context(), pairs[0].Refresh, client, "")
	must(t, err)
	if _, err := w.Refresh(t.Context(), tokens.Refresh, client, ""); !errors.Is(err, login.ErrRefused) {
		t.Errorf("after the grace: %v", err)
	}
	for name, pair := range map[string]login.Tokens{"first": tokens, "rotated": pairs[0], "sibling": pairs[1], "newest": next} {
		if w.works(t, pair.Access) {
			t.Errorf("after a theft the %s access token works", name)
		}
		if _, err := w.Refresh(t.Context(), pair.Refresh, client, ""); !errors.Is(err, login.ErrRefused) {
			t.Errorf("after a theft the %s refresh token: %v", name, err)
		}
	}
}

func TestARefreshThatDoesNotFitChangesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tokens := w.connected(t)
	for name, refresh := range map[string]func() (login.Tokens, error){
		"another client": func() (login.Tokens, error) { return w.Refresh(t.Context(), tokens.Refresh, "mcl_other", "") },
		"another resource": func() (login.Tokens, error) {
			return w.Refresh(t.Context(), tokens.Refresh, client, "http://other.test/mcp")
		},
		"an access token": func() (login.Tokens, error) { return w.Refresh(t.Context(), tokens.Access, client, "") },
		"garbage":         func() (login.Tokens, error) { return w.Refresh(t.Context(), "mrt_x", client, "") },
		"as access token": func() (login.Tokens, error) {
			return w.Refresh(t.Context(), "mrt_"+strings.TrimPrefix(tokens.Access, "mat_"), client, "")
		},
	} {
		if _, err := refresh(); !errors.Is(err, login.ErrRefused) {
			t.Errorf("%s: %v", name, err)
		}
	}
	w.clock.Advance(719 * time.Hour)
	next, err := w.Refresh(t.Context(), tokens.Refresh, client, "")
	must(t, err)
	w.clock.Advance(720 * time.Hour)
	if _, err := w.Refresh(t.Context(), next.Refresh, client, ""); !errors.Is(err, login.ErrRefused) {
		t.Errorf("after its time: %v", err)
	}
}

func TestConnectionsEndWithWhatTheyStandFor(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ end, back func(*testing.T, *world) }{
		"the owner": {
			end: func(t *testing.T, w *world) {
				w.ensure(t, func(s *account.Spec) { s.Owners = []string{"bo@example.org"} })
			},
			back: func(t *testing.T, w *world) { w.ensure(t, func(*account.Spec) {}) },
		},
		"a suspension": {
			end:  func(t *testing.T, w *world) { w.ensure(t, func(s *account.Spec) { s.Suspended = true }) },
			back: func(t *testing.T, w *world) { w.ensure(t, func(*account.Spec) {}) },
		},
		"the key": {
			end: func(t *testing.T, w *world) {
				_, _, err := w.Registry.IssueKey(t.Context(), w.tenant.App.ID, 2, 0)
				must(t, err)
			},
			back: func(*testing.T, *world) {},
		},
		"the account": {
			end: func(t *testing.T, w *world) {
				must(t, w.Store.CloseAccount(t.Context(), w.tenant.Account.ID, time.Now()))
			},
			back: func(*testing.T, *world) {},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			tokens, code := w.connected(t), w.granted(t)
			b := w.begin(t, ask())
			b.enter(t, owner)
			if !w.works(t, tokens.Access) {
				t.Fatal("the connection does not work")
			}
			c.end(t, w)
			check := func(when string) {
				t.Helper()
				if w.works(t, tokens.Access) {
					t.Errorf("%s the access token works", when)
				}
				if _, err := w.Refresh(t.Context(), tokens.Refresh, client, ""); !errors.Is(err, login.ErrRefused) {
					t.Errorf("%s the refresh token: %v", when, err)
				}
				if _, err := w.Redeem(t.Context(), redemption(code)); !errors.Is(err, login.ErrRefused) {
					t.Errorf("%s the authorization code: %v", when, err)
				}
			}
			if name != "the key" {
				if _, err := w.Allow(t.Context(), b.request(t), w.tenant.Account.ID); !fault.Is(err, fault.Conflict) {
					t.Errorf("consent: %v", err)
				}
			}
			check("at its end")
			c.back(t, w)
			check("when it is back")
		})
	}
}

func TestAConnectionMovesOnToTheNewKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tokens := w.connected(t)
	_, key, err := w.Registry.IssueKey(t.Context(), w.tenant.App.ID, 2, 24*time.Hour)
	must(t, err)
	if !w.works(t, tokens.Access) {
		t.Error("the old key still has a day")
	}
	next, err := w.Refresh(t.Context(), tokens.Refresh, client, "")
	must(t, err)
	hash, _ := login.AccessTokenHash(next.Access)
	session, err := w.Store.FindSession(t.Context(), hash)
	must(t, err)
	if session.Key.ID != key.ID {
		t.Error("the connection stands for the old key")
	}
	w.clock.Advance(25 * time.Hour)
	if _, err := w.Refresh(t.Context(), next.Refresh, client, ""); err != nil {
		t.Errorf("after the old key's end: %v", err)
	}
}

func TestNobodyConnectsAnAccountOfOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	other := w.account(t, "other", "bo@example.org")
	b := w.begin(t, ask())
	if _, err := w.Allow(t.Context(), b.request(t), w.tenant.Account.ID); !fault.Is(err, fault.Unauthenticated) {
		t.Errorf("before the login: %v", err)
	}
	if _, err := w.Accounts(t.Context(), b.request(t)); !fault.Is(err, fault.Unauthenticated) {
		t.Errorf("accounts before the login: %v", err)
	}
	b.enter(t, owner)
	accounts, err := w.Accounts(t.Context(), b.request(t))
	must(t, err)
	if len(accounts) != 1 || accounts[0].ID != w.tenant.Account.ID {
		t.Errorf("ana may choose from %v", accounts)
	}
	for _, id := range []uuid.UUID{other.Account.ID, uuid.New(), uuid.Nil} {
		if _, err := w.Allow(t.Context(), b.request(t), id); !fault.Is(err, fault.Conflict) {
			t.Errorf("another account: %v", err)
		}
	}
	request := b.request(t)
	if _, err := w.Allow(t.Context(), request, w.tenant.Account.ID); err != nil {
		t.Error(err)
	}
	if _, err := w.Allow(t.Context(), request, w.tenant.Account.ID); !fault.Is(err, fault.NotFound) {
		t.Errorf("consent twice: %v", err)
	}
	alone := w.begin(t, nil)
	alone.enter(t, owner)
	if _, err := w.Allow(t.Context(), alone.request(t), w.tenant.Account.ID); !fault.Is(err, fault.Unauthenticated) {
		t.Errorf("a consent that no application asked for: %v", err)
	}
}

func TestAPersonEndsTheirOwnConnections(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ensure(t, func(s *account.Spec) { s.Owners = []string{owner, "bo@example.org"} })
	mine := w.connected(t)
	b := w.begin(t, ask())
	b.enter(t, "bo@example.org")
	code, err := w.Allow(t.Context(), b.request(t), w.tenant.Account.ID)
	must(t, err)
	theirs, err := w.Redeem(t.Context(), redemption(code))
	must(t, err)
	alone := w.begin(t, nil)
	if _, err := w.Connections(t.Context(), alone.request(t)); !fault.Is(err, fault.Unauthenticated) {
		t.Errorf("before the login: %v", err)
	}
	alone.enter(t, owner)
	found, err := w.Connections(t.Context(), alone.request(t))
	must(t, err)
	if len(found) != 1 || found[0].ClientName != "Test" || found[0].AccountName != "studio" {
		t.Fatalf("connections: %+v", found)
	}
	if n, err := w.EndConnections(t.Context(), alone.request(t), uuid.New()); err != nil || n != 0 {
		t.Errorf("one that does not exist: %d %v", n, err)
	}
	if n, err := w.EndConnections(t.Context(), alone.request(t), uuid.Nil); err != nil || n != 1 {
		t.Errorf("all: %d %v", n, err)
	}
	if w.works(t, mine.Access) || !w.works(t, theirs.Access) {
		t.Error("ending one's own connections must end those and no others")
	}
}

func TestAnApplicationRevokesItsOwnTokens(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tokens := w.connected(t)
	must(t, w.Revoke(t.Context(), "mat_"+strings.Repeat("a", 43), client))
	must(t, w.Revoke(t.Context(), "garbage", client))
	if err := w.Revoke(t.Context(), tokens.Refresh, "mcl_other"); !errors.Is(err, login.ErrRefused) || !w.works(t, tokens.Access) {
		t.Errorf("another application: %v", err)
	}
	must(t, w.Revoke(t.Context(), tokens.Access, client))
	if w.works(t, tokens.Access) {
		t.Error("a revoked token works")
	}
	if _, err := w.Refresh(t.Context(), tokens.Refresh, client, ""); !errors.Is(err, login.ErrRefused) {
		t.Errorf("its refresh token: %v", err)
	}
}

func TestTheSameWordsAreOneApplication(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var mu sync.Mutex
	ids := map[string]int{}
	var registering sync.WaitGroup
	for range 10 {
		registering.Go(func() {
			for range 100 {
				made, err := w.Register(context.WithoutCancel(t.Context()), login.Client{Name: "Same", RedirectURIs: []string{redirect, "https://b.test/"}}, network)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				ids[made.ID]++
				mu.Unlock()
			}
		})
	}
	registering.Wait()
	if n := w.Number(t, "SELECT count(*) FROM login_client"); len(ids) != 1 || n != 1 {
		t.Errorf("%d ids in %d rows", len(ids), n)
	}
	for i, name := range []string{"b", "c", "d"} {
		_, err := w.Register(t.Context(), login.Client{Name: name, RedirectURIs: []string{redirect}}, network)
		if (err != nil) != (i == 2) || err != nil && !fault.Is(err, fault.Busy) {
			t.Errorf("the application %s: %v", name, err)
		}
	}
	if n := w.Number(t, "SELECT count(*) FROM login_client"); n != 3 {
		t.Errorf("%d applications", n)
	}
}

func TestThePurgeTakesWhatIsOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	cfg := login.PurgeConfig{UnusedClientsTTL: 24 * time.Hour}
	unused, err := w.Register(t.Context(), login.Client{Name: "Unused", RedirectURIs: []string{redirect}}, network)
	must(t, err)
	used, err := w.Register(t.Context(), login.Client{Name: "Used", RedirectURIs: []string{redirect}}, network)
	must(t, err)
	b := w.begin(t, &login.Ask{ClientID: used.ID, RedirectURI: redirect, Scopes: []login.Scope{login.ScopeRead}, Challenge: ask().Challenge, Registered: true})
	b.enter(t, owner)
	code, err := w.Allow(t.Context(), b.request(t), w.tenant.Account.ID)
	must(t, err)
	tokens, err := w.Redeem(t.Context(), login.Redemption{Code: code, ClientID: used.ID, RedirectURI: redirect, Verifier: verifier})
	must(t, err)
	stays := w.granted(t)
	must(t, w.begin(t, ask()).send(t, "stranger@example.org"))
	purge := func() {
		t.Helper()
		_, err := login.Purge(t.Context(), cfg, w.Store, w.clock.Now())
		must(t, err)
	}
	rows := func(table string) int64 { return w.Number(t, "SELECT count(*) FROM "+table) }
	purge()
	if _, err := w.Redeem(t.Context(), redemption(stays)); err != nil {
		t.Errorf("the purge took a code that was valid: %v", err)
	}
	if rows("login_request") == 0 || rows("letter") != 1 || rows("login_client") != 2 {
		t.Error("the purge took what is not over")
	}
	w.clock.Advance(25 * time.Hour)
	purge()
	if n := rows("login_request") + rows("letter") + rows("login_attempt"); n != 0 {
		t.Errorf("%d rows are left", n)
	}
	if _, err := w.FindClient(t.Context(), unused.ID); !fault.Is(err, fault.NotFound) {
		t.Errorf("an application that nobody uses: %v", err)
	}
	if _, err := w.FindClient(t.Context(), used.ID); err != nil {
		t.Errorf("an application that is connected: %v", err)
	}
	if _, err := w.Refresh(t.Context(), tokens.Refresh, used.ID, ""); err != nil {
		t.Errorf("a connection after a day: %v", err)
	}
	w.clock.Advance(1000 * time.Hour)
	purge()
	for _, table := range []string{"login_grant", "login_code", "login_token", "login_client"} {
		if n := rows(table); n != 0 {
			t.Errorf("%d rows of %s are left", n, table)
		}
	}
}

func TestLettersAreClaimedOnceAndComeBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	must(t, w.begin(t, ask()).send(t, owner))
	first, err := w.Claim(t.Context(), 10, time.Minute)
	must(t, err)
	second, err := w.Claim(t.Context(), 10, time.Minute)
	must(t, err)
	if len(first) != 1 || len(second) != 0 || first[0].Attempts != 1 {
		t.Fatalf("claims: %d and %d", len(first), len(second))
	}
	w.clock.Advance(2 * time.Minute) // whoever claimed it died
	again, err := w.Claim(t.Context(), 10, time.Minute)
	must(t, err)
	if len(again) != 1 || again[0].Code != first[0].Code || again[0].Attempts != 2 {
		t.Fatalf("after the lease: %v", again)
	}
	must(t, w.Retry(t.Context(), again[0].ID, w.clock.Now().Add(5*time.Second)))
	w.clock.Advance(6 * time.Second)
	if again, err = w.Claim(t.Context(), 10, time.Minute); err != nil || len(again) != 1 {
		t.Fatalf("after the pause: %v %v", again, err)
	}
	w.clock.Advance(10 * time.Minute)
	if again, err = w.Claim(t.Context(), 10, time.Minute); err != nil || len(again) != 0 {
		t.Errorf("a letter whose code is over: %v %v", again, err)
	}
	// A letter that another secret sealed is dropped, and stands in nobody's way.
	must(t, w.begin(t, ask()).send(t, owner))
	cfg := login.Config{RequestTTL: time.Minute, CodeTTL: time.Minute, CodeTries: 1, CodesOfAddress: 1, TriesOfAddress: 1, CodesOfClient: 1, GrantCodeTTL: time.Minute, AccessTTL: time.Hour, RefreshTTL: time.Hour, Registrations: 1}
	if letters, err := w.service(t, cfg, "z").Claim(t.Context(), 10, time.Minute); err != nil || len(letters) != 0 {
		t.Errorf("another secret: %v %v", letters, err)
	}
	if n := w.Number(t, "SELECT count(*) FROM letter"); n != 0 {
		t.Errorf("%d letters are left", n)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
