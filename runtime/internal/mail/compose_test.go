package mail_test

import (
	"encoding/base64"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	netmail "net/mail"
	"regexp"
	"strings"
	"testing"

	"mediastack.dev/runtime/work"
)

// read parses an e-mail into headers, text part and HTML part.
func read(t *testing.T, data string) (header netmail.Header, text, html string) {
	t.Helper()
	message, err := netmail.ReadMessage(strings.NewReader(data))
	must(t, err)
	kind, params, err := mime.ParseMediaType(message.Header.Get("Content-Type"))
	if err != nil || kind != "multipart/alternative" {
		t.Fatalf("the e-mail is %q, %v", kind, err)
	}
	var parts []string
	for parsed := multipart.NewReader(message.Body, params["boundary"]); ; {
		part, err := parsed.NextRawPart()
		if errors.Is(err, io.EOF) {
			break
		}
		must(t, err)
		var body io.Reader = part
		switch part.Header.Get("Content-Transfer-Encoding") {
		case "quoted-printable":
			body = quotedprintable.NewReader(part)
		case "base64":
			body = base64.NewDecoder(base64.StdEncoding, part)
		}
		content, err := io.ReadAll(body)
		must(t, err)
		parts = append(parts, part.Header.Get("Content-Type")+"\n"+string(content))
	}
	if len(parts) != 2 || !strings.HasPrefix(parts[0], "text/plain; charset=UTF-8\n") || !strings.HasPrefix(parts[1], "text/html; charset=UTF-8\n") {
		t.Fatalf("the parts are %q", parts)
	}
	return message.Header, parts[0], parts[1]
}

func TestCompose_ContainsCodeExpiryAndWarnings(t *testing.T) {
	t.Parallel()
	server := (&server{}).start(t)
	must(t, newSender(t, config(server.port)).send(t, newTask(t, address)))
	email := server.accepted()[0]
	if email.from != "login@media.example" || email.to != address {
		t.Errorf("the envelope is from %s to %s", email.from, email.to)
	}
	header, text, html := read(t, email.data)
	decoder := new(mime.WordDecoder)
	subject, err := decoder.DecodeHeader(header.Get("Subject"))
	if err != nil || subject != "Your code to log in to Müller & Söhne" {
		t.Errorf("the subject is %q, %v", subject, err)
	}
	if from, err := header.AddressList("From"); err != nil || len(from) != 1 || from[0].Name != "Müller & Söhne" || from[0].Address != "login@media.example" {
		t.Errorf("From: %v %v", from, err)
	}
	if to, err := header.AddressList("To"); err != nil || len(to) != 1 || to[0].Address != address {
		t.Errorf("To: %v %v", to, err)
	}
	if date, err := header.Date(); err != nil || !date.Equal(now) {
		t.Errorf("Date: %v %v", date, err)
	}
	if id := header.Get("Message-Id"); !regexp.MustCompile(`^<[0-9a-f]{32}@media\.example>$`).MatchString(id) {
		t.Errorf("Message-ID: %s", id)
	}
	for name, want := range map[string]string{"Auto-Submitted": "auto-generated", "X-Auto-Response-Suppress": "All", "Mime-Version": "1.0", "User-Agent": "", "X-Mailer": "", "Bcc": "", "List-Unsubscribe": ""} {
		if got := header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if !strings.Contains(text, "\n    "+code+"\n") && !strings.Contains(text, "\n    "+code+"\r\n") {
		t.Errorf("the code has no line of its own:\n%s", text)
	}
	for _, want := range []string{code, "media.example.org", "14:15 UTC", "Never share this code", "did not ask"} {
		if !strings.Contains(text, want) || !strings.Contains(html, want) {
			t.Errorf("%q is not in both parts:\n%s\n%s", want, text, html)
		}
	}
	if !strings.Contains(text, "Müller & Söhne") || !strings.Contains(html, "Müller &amp; Söhne") {
		t.Error("the name is missing, or not escaped")
	}
	// A locked screen shows the subject and the first words of either part.
	for part, body := range map[string]string{"subject": subject, "text": text[:strings.Index(text, code)], "html": visible(html)[:strings.Index(visible(html), code)]} {
		if part != "subject" && len(body) < 60 || strings.Contains(body, code) {
			t.Errorf("the code is too early in the %s: %q", part, body)
		}
	}
	for _, remote := range []string{"http://", "https://", "<img", "<script", "<link", "url(", "@import", "<a "} {
		if strings.Contains(strings.ToLower(html), remote) {
			t.Errorf("the HTML part has %s", remote)
		}
	}
}

func visible(html string) string {
	_, body, _ := strings.Cut(html, "<body")
	return regexp.MustCompile(`<[^>]*>|^[^>]*>|\s+`).ReplaceAllString(body, " ")
}

func TestCompose_MessageIDIsStablePerEmail(t *testing.T) {
	t.Parallel()
	server := (&server{}).start(t)
	sending := newSender(t, config(server.port))
	for _, task := range []work.Task{newTask(t, address), newTask(t, address)} {
		for task.Attempt = 1; task.Attempt <= 2; task.Attempt++ { // accepted, but not recorded
			must(t, sending.send(t, task))
		}
	}
	ids := map[string]int{}
	for _, email := range server.accepted() {
		header, _, _ := read(t, email.data)
		ids[header.Get("Message-Id")]++
	}
	if len(ids) != 2 {
		t.Errorf("two e-mails, each sent twice, have the ids %v", ids)
	}
}
