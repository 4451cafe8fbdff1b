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
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/emersion/go-smtp"
	"golang.org/x/sync/errgroup"
)

// people is how many addresses log in, in turn: each may do it some dozens of times an hour.
const people = 100

// logins lets people log in at an even pace beside a steady load, and tells what the
// load feels of it. A login is a whole one: begin, mail, code, consent, tokens.
func logins(ctx context.Context, b *bench) error {
	var owners []string
	for n := range people {
		owners = append(owners, "person"+strconv.Itoa(n)+"@example.org")
	}
	busy, err := b.rig.tenant(ctx, "logins", owners...)
	if err != nil {
		return err
	}
	post, err := openPost(ctx)
	if err != nil {
		return err
	}
	defer post.close()
	e, err := b.rig.serve(ctx, service, busy, map[string]string{
		"SERVICE_SMTP_HOST": "127.0.0.1", "SERVICE_SMTP_PORT": strconv.Itoa(post.port), "SERVICE_SMTP_TLS": "none", "SERVICE_MAIL_FROM": "login@example.org",
		"SERVICE_RATE_LIMIT_LOGINS": "0", "SERVICE_LOGIN_CODES_PER_EMAIL": "100", "SERVICE_LOGIN_ATTEMPTS_PER_EMAIL": "100", "SERVICE_LOGIN_CODES_PER_IP": "10000",
		"SERVICE_LOGIN_RESEND_AFTER": "0s",
	})
	if err != nil {
		return err
	}
	crowd, err := newCrowd(ctx, e, post, busy, owners)
	if err != nil {
		return err
	}
	steady, err := b.newSteady(ctx, e)
	if err != nil {
		return err
	}
	// Warming up is not counted.
	if _, err := b.watch(ctx, steady, "warming up", crowd.come(b.Logins, min(b.Idle, 3*time.Second))); err != nil {
		return err
	}
	before, err := b.watch(ctx, steady, "idle", afterwards(b.Idle))
	if err != nil {
		return err
	}
	crowd.took = nil
	during, err := b.watch(ctx, steady, strconv.Itoa(b.Logins)+" logins a second", crowd.come(b.Logins, b.Idle))
	if err != nil {
		return err
	}
	after, err := b.watch(ctx, steady, "idle again", afterwards(b.Idle))
	if err != nil {
		return err
	}
	took := sorted(round{times: crowd.took})
	b.add(result{Benchmark: b.name, Case: "whole logins", Figure: "a second", Behind: map[string]float64{"p50Milliseconds": took.percentile(0.5).Seconds() * 1000}},
		float64(len(took.times))/during.took.Seconds())
	b.note("%d whole logins (five forms and pages, a mail and the tokens) went through; p50 %s ms, p99 %s ms", len(took.times), milliseconds(took.percentile(0.5)), milliseconds(took.percentile(0.99)))
	b.compareLatency("logins", "", before, during, after)
	return nil
}

// post is a mail server that hands out the codes.
type post struct {
	server *smtp.Server
	port   int

	mu    sync.Mutex
	boxes map[string]chan string
}

func openPost(ctx context.Context) (*post, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &post{port: listener.Addr().(*net.TCPAddr).Port, boxes: map[string]chan string{}}
	p.server = smtp.NewServer(smtp.BackendFunc(func(*smtp.Conn) (smtp.Session, error) { return &delivery{post: p}, nil }))
	p.server.Domain = "localhost"
	go func() { _ = p.server.Serve(listener) }() // ends with close
	return p, nil
}

func (p *post) close() { _ = p.server.Close() }

// box is where the codes for an address come.
func (p *post) box(address string) chan string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.boxes[address] == nil {
		p.boxes[address] = make(chan string, 1000)
	}
	return p.boxes[address]
}

// delivery is one conversation.
type delivery struct {
	post *post
	to   string
}

// Mail takes the sender.
func (*delivery) Mail(string, *smtp.MailOptions) error { return nil }

// Rcpt takes the recipient.
func (d *delivery) Rcpt(to string, _ *smtp.RcptOptions) error { d.to = to; return nil }

// codeLine is the line of the text that is the code.
var codeLine = regexp.MustCompile(`(?m)^ {4}([0-9]{8})\r?$`)

// Data takes the letter.
func (d *delivery) Data(r io.Reader) error {
	text, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	if found := codeLine.FindSubmatch(text); found != nil {
		d.post.box(d.to) <- string(found[1])
	}
	return nil
}

// Reset begins another letter.
func (*delivery) Reset() {}

// Logout ends the conversation.
func (*delivery) Logout() error { return nil }

// crowd are people who log in.
type crowd struct {
	e       *endpoint
	post    *post
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

func newCrowd(ctx context.Context, e *endpoint, post *post, of tenant, owners []string) (*crowd, error) {
	c := &crowd{e: e, post: post, account: of.account.ID.String(), free: make(chan string, len(owners))}
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

// come lets so many people a second log in, for a while.
func (c *crowd) come(perSecond int, d time.Duration) func(context.Context) error {
	return func(ctx context.Context) error {
		group, ctx := errgroup.WithContext(ctx)
		start := time.Now()
		for n := 0; ; n++ {
			due := start.Add(time.Duration(n) * time.Second / time.Duration(perSecond))
			if due.Sub(start) >= d {
				return group.Wait()
			}
			select {
			case <-ctx.Done():
				return group.Wait()
			case <-time.After(time.Until(due)):
			}
			group.Go(func() error {
				// A person logs in once at a time; with all of them busy the service is too slow for the pace.
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
}

// hidden is a hidden field of our own pages.
var hidden = regexp.MustCompile(`<input[^>]*type="hidden"[^>]*>`)

var attribute = regexp.MustCompile(`(name|value)="([^"]*)"`)

// visit is one browser's way through a login.
type visit struct {
	*crowd
	cookie string
	fields url.Values
	leads  string // where the last answer leads
}

func (c *crowd) logIn(ctx context.Context, owner string) error {
	sum := sha256.Sum256([]byte(verifier))
	query := url.Values{"response_type": {"code"}, "client_id": {c.client}, "redirect_uri": {callback}, "code_challenge": {base64.RawURLEncoding.EncodeToString(sum[:])}, "code_challenge_method": {"S256"}}
	v := &visit{crowd: c}
	if err := v.open(ctx, "/oauth/authorize?"+query.Encode()); err != nil {
		return err
	}
	if err := v.send(ctx, "/oauth/login/email", url.Values{"address": {owner}}); err != nil {
		return err
	}
	var code string
	select {
	case code = <-c.post.box(owner):
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
	told, err := url.Parse(v.leads)
	if err != nil || told.Query().Get("code") == "" {
		return fmt.Errorf("the application was told %q", v.leads)
	}
	form := url.Values{"grant_type": {"authorization_code"}, "code": {told.Query().Get("code")}, "client_id": {c.client}, "redirect_uri": {callback}, "code_verifier": {verifier}}
	_, err = c.e.do(ctx, http.MethodPost, "/oauth/token", strings.NewReader(form.Encode()), "application/x-www-form-urlencoded", http.StatusOK)
	return err
}

// open asks for a page and follows it while it stays with the service.
func (v *visit) open(ctx context.Context, path string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, v.e.baseURL+path, nil)
	if err != nil {
		return err
	}
	return v.do(request)
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

func (v *visit) do(request *http.Request) error {
	if v.cookie != "" {
		request.Header.Set("Cookie", v.cookie)
	}
	response, err := v.e.client.Transport.RoundTrip(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	for _, cookie := range response.Cookies() {
		v.cookie = cookie.Name + "=" + cookie.Value
	}
	v.leads = response.Header.Get("Location")
	switch {
	case response.StatusCode == http.StatusSeeOther && strings.HasPrefix(v.leads, "/"):
		return v.open(request.Context(), v.leads)
	case response.StatusCode == http.StatusSeeOther:
		return nil
	case response.StatusCode != http.StatusOK:
		return fmt.Errorf("%s %s was answered %s: %.300s", request.Method, request.URL.Path, response.Status, bytes.TrimSpace(body))
	}
	v.fields = url.Values{}
	for _, input := range hidden.FindAllString(string(body), -1) {
		found := map[string]string{}
		for _, match := range attribute.FindAllStringSubmatch(input, -1) {
			found[match[1]] = html.UnescapeString(match[2])
		}
		v.fields.Set(found["name"], found["value"])
	}
	return nil
}
