package main

import (
	"crypto/sha256"
	"encoding/base64"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"mediastack.dev/hack/testenv"
	testwait "mediastack.dev/hack/testenv/wait"
	"mediastack.dev/hack/testenv/webuser"
)

// A user whose login hangs because its process was killed begins again in another browser, and need not wait for the
// pause between codes to end.
func TestKilledRuntime_LetsItsUsersLogInElsewhereAtOnce(t *testing.T) {
	t.Parallel()
	mailLog := filepath.Join(testenv.TempDir(t), "mail.log")
	r := startTwo(t, 1<<20, append(testenv.MailSink(t, mailLog), "SERVICE_LOGIN_RESEND_AFTER=1h", "SERVICE_IMAGE_ENABLED=false")...)
	told := make(chan url.Values, 1)
	application := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		told <- q.URL.Query()
		_, _ = io.WriteString(w, "You are back.")
	}))
	defer application.Close()
	var client struct {
		ID string `json:"client_id"`
	}
	if status := r.askJSON(t, r.first, http.MethodPost, "/oauth/register", `{"client_name": "Gopher", "redirect_uris": ["`+application.URL+`/callback"]}`, &client); status != http.StatusCreated {
		t.Fatalf("%d", status)
	}
	challenge := sha256.Sum256([]byte("a-verifier-of-forty-three-characters-or-more-0"))
	authorize := "/oauth/authorize?" + url.Values{"response_type": {"code"}, "client_id": {client.ID}, "redirect_uri": {application.URL + "/callback"},
		"code_challenge": {base64.RawURLEncoding.EncodeToString(challenge[:])}, "code_challenge_method": {"S256"}}.Encode()
	owner := r.tenant.Account.Owners[0]
	webuser.New(t, owner, mailLog, nil).AskForCode(r.first.BaseURL + authorize)
	testwait.Until(t, "the first e-mail arrives", func() bool {
		mails, err := os.ReadFile(mailLog)
		must(t, err)
		return strings.Contains(string(mails), "----- end of mail")
	})
	must(t, r.first.Signal(syscall.SIGKILL))
	webuser.New(t, owner, mailLog, nil).LogIn(r.second.BaseURL+authorize, "Gopher")
	if answer := <-told; answer.Get("code") == "" {
		t.Errorf("the application is told %v", answer)
	}
}
