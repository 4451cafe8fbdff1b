package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/emersion/go-smtp"
)

// owners is how many addresses log in, in turn: each may do it some dozens of times an hour.
const ownerCount = 100

// logins measures the latency of background requests during logins at an even pace. A login is
// complete: authorization request, e-mail, code, consent, tokens.
func logins(ctx context.Context, b *bench) error {
	var owners []string
	for n := range ownerCount {
		owners = append(owners, "person"+strconv.Itoa(n)+"@example.org")
	}
	busy, err := b.env.tenant(ctx, "logins", owners...)
	if err != nil {
		return err
	}
	sink, err := startSMTPSink(ctx)
	if err != nil {
		return err
	}
	defer sink.close()
	e, err := b.env.serve(ctx, service, busy, "SERVICE_SMTP_HOST=127.0.0.1", "SERVICE_SMTP_PORT="+strconv.Itoa(sink.port), "SERVICE_SMTP_TLS=none",
		"SERVICE_MAIL_FROM=login@example.org", "SERVICE_RATE_LIMIT_LOGINS=0", "SERVICE_LOGIN_CODES_PER_EMAIL=100", "SERVICE_LOGIN_ATTEMPTS_PER_EMAIL=100",
		"SERVICE_LOGIN_CODES_PER_IP=10000", "SERVICE_LOGIN_RESEND_AFTER=0s")
	if err != nil {
		return err
	}
	users, err := newUsers(ctx, e, sink, busy, owners)
	if err != nil {
		return err
	}
	return b.compareLatency(ctx, e, "logins", "", users.logIns(b.Logins, min(b.Idle, 3*time.Second)), func(ctx context.Context) error {
		users.took = nil // of warming up
		started := time.Now()
		if err := users.logIns(b.Logins, b.Idle)(ctx); err != nil {
			return err
		}
		all := sorted(round{times: users.took})
		b.add(result{Benchmark: b.name, Case: "whole logins", Figure: "a second", Inputs: map[string]float64{"p50Milliseconds": all.percentile(0.5).Seconds() * 1000}},
			float64(len(all.times))/time.Since(started).Seconds())
		b.note("%d whole logins (five forms and pages, a mail and the tokens) went through; p50 %s ms, p99 %s ms", len(all.times), milliseconds(all.percentile(0.5)), milliseconds(all.percentile(0.99)))
		return nil
	})
}

// smtpSink is a mail server that hands out the codes.
type smtpSink struct {
	server *smtp.Server
	port   int

	mu    sync.Mutex
	boxes map[string]chan string
}

func startSMTPSink(ctx context.Context) (*smtpSink, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &smtpSink{port: listener.Addr().(*net.TCPAddr).Port, boxes: map[string]chan string{}}
	p.server = smtp.NewServer(smtp.BackendFunc(func(*smtp.Conn) (smtp.Session, error) { return &delivery{sink: p}, nil }))
	p.server.Domain = "localhost"
	go func() { _ = p.server.Serve(listener) }() // ends with close
	return p, nil
}

func (p *smtpSink) close() { _ = p.server.Close() }

// box is where the codes for an address come.
func (p *smtpSink) box(address string) chan string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.boxes[address] == nil {
		p.boxes[address] = make(chan string, 1000)
	}
	return p.boxes[address]
}

// delivery is one conversation.
type delivery struct {
	sink *smtpSink
	to   string
}

// Mail takes the sender.
func (*delivery) Mail(string, *smtp.MailOptions) error { return nil }

// Rcpt takes the recipient.
func (d *delivery) Rcpt(to string, _ *smtp.RcptOptions) error { d.to = to; return nil }

// codeLine is the line of the text that is the code.
var codeLine = regexp.MustCompile(`(?m)^ {4}([0-9]{8})\r?$`)

// Data receives the e-mail.
func (d *delivery) Data(r io.Reader) error {
	text, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	if found := codeLine.FindSubmatch(text); found != nil {
		d.sink.box(d.to) <- string(found[1])
	}
	return nil
}

// Reset begins another e-mail.
func (*delivery) Reset() {}

// Logout ends the conversation.
func (*delivery) Logout() error { return nil }

// users log in with the owners' addresses.
type users struct {
	e       *endpoint
	sink    *smtpSink
	account string
	client  string // the application
	free    chan string

	mu   sync.Mutex
	took []time.Duration
}

const (
	callback = "http://127.0.0.1:1/callback"
	verifier = "a-verifier-of-forty-three-characters-or-more-0"
)

func newUsers(ctx context.Context, e *endpoint, sink *smtpSink, of tenant, owners []string) (*users, error) {
	c := &users{e: e, sink: sink, account: of.Account.ID.String(), free: make(chan string, len(owners))}
	for _, owner := range owners {
		c.free <- owner
	}
	answer, err := e.do(ctx, http.MethodPost, "/oauth/register", strings.NewReader(`{"client_name":"Bench","redirect_uris":["`+callback+`"]}`), "application/json", http.StatusCreated)
	if err != nil {
		return nil, err
	}
	var registered struct {
		ClientID string `json:"client_id"`
	}
	err = json.Unmarshal(answer, &registered)
	c.client = registered.ClientID
	return c, err
}

// logIns returns an activity: so many logins per second for a while.
func (c *users) logIns(perSecond int, d time.Duration) func(context.Context) error {
	return func(ctx context.Context) error {
		begin, stop := context.WithTimeout(ctx, d)
		defer stop()
		return atPace(begin, perSecond, func(_ int, due time.Time) error {
			// An owner logs in once at a time; with all of them busy the service is too slow for the pace.
			select {
			case owner := <-c.free:
				err := c.logIn(ctx, owner)
				c.free <- owner
				if err != nil {
					return fmt.Errorf("a login: %w", err)
				}
			case <-ctx.Done():
				return ctx.Err()
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			c.took = append(c.took, time.Since(due))
			return nil
		})
	}
}

// hidden is a hidden field of our own pages.
var hidden = regexp.MustCompile(`<input[^>]*type="hidden"[^>]*>`)

var attribute = regexp.MustCompile(`(name|value)="([^"]*)"`)

// visit is one browser's login.
type visit struct {
	*users
	browser  *http.Client
	fields   url.Values // hidden ones of the page
	location string     // of the redirect that leaves the service
}

func (c *users) newVisit() *visit {
	jar, _ := cookiejar.New(nil) // never fails, by its contract
	stay := func(next *http.Request, _ []*http.Request) error {
		if strings.HasPrefix(next.URL.String(), c.e.baseURL+"/") {
			return nil
		}
		return http.ErrUseLastResponse
	}
	return &visit{users: c, browser: &http.Client{Transport: c.e.client.Transport, Jar: jar, CheckRedirect: stay}}
}

func (c *users) logIn(ctx context.Context, owner string) error {
	sum := sha256.Sum256([]byte(verifier))
	query := url.Values{"response_type": {"code"}, "client_id": {c.client}, "redirect_uri": {callback}, "code_challenge": {base64.RawURLEncoding.EncodeToString(sum[:])}, "code_challenge_method": {"S256"}}
	v := c.newVisit()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.e.baseURL+"/oauth/authorize?"+query.Encode(), nil)
	if err != nil {
		return err
	}
	if err := v.do(request); err != nil {
		return err
	}
	if err := v.send(ctx, "/oauth/login/email", url.Values{"email": {owner}}); err != nil {
		return err
	}
	var code string
	select {
	case code = <-c.sink.box(owner):
	case <-time.After(30 * time.Second):
		return errors.New("no code came within 30 seconds")
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := v.send(ctx, "/oauth/login/code", url.Values{"code": {code}}); err != nil {
		return err
	}
	if err := v.send(ctx, "/oauth/consent", url.Values{"decision": {"allow"}, "account": {c.account}}); err != nil {
		return err
	}
	redirect, err := url.Parse(v.location)
	if err != nil || redirect.Query().Get("code") == "" {
		return fmt.Errorf("the application was redirected to with %q", v.location)
	}
	form := url.Values{"grant_type": {"authorization_code"}, "code": {redirect.Query().Get("code")}, "client_id": {c.client}, "redirect_uri": {callback}, "code_verifier": {verifier}}
	_, err = c.e.do(ctx, http.MethodPost, "/oauth/token", strings.NewReader(form.Encode()), "application/x-www-form-urlencoded", http.StatusOK)
	return err
}

func (v *visit) send(ctx context.Context, path string, fields url.Values) error {
	for _, name := range []string{"request", "csrf"} {
		fields.Set(name, v.fields.Get(name))
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, v.e.baseURL+path, strings.NewReader(fields.Encode()))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.Header.Set("Origin", v.e.baseURL)
	return v.do(request)
}

// do sends a request, follows redirects within the service, and reads the page.
func (v *visit) do(request *http.Request) error {
	response, err := v.browser.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	v.location, v.fields = response.Header.Get("Location"), url.Values{}
	if response.StatusCode != http.StatusOK && response.StatusCode != http.StatusSeeOther {
		return fmt.Errorf("%s %s was answered %s: %.300s", request.Method, request.URL.Path, response.Status, bytes.TrimSpace(body))
	}
	for _, input := range hidden.FindAllString(string(body), -1) {
		found := map[string]string{}
		for _, match := range attribute.FindAllStringSubmatch(input, -1) {
			found[match[1]] = html.UnescapeString(match[2])
		}
		v.fields.Set(found["name"], found["value"])
	}
	return nil
}
