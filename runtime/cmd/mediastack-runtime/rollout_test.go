package main

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/emersion/go-smtp"

	"mediastack.dev/hack/testenv"
	testwait "mediastack.dev/hack/testenv/wait"
	"mediastack.dev/hack/testenv/webuser"
)

// hangingMail is an SMTP server that does not answer to the first e-mail, and accepts the next ones.
type hangingMail struct {
	hang            chan struct{} // ends the first one
	begun, accepted atomic.Int32
}

// newHangingMail returns the server, which serves until the test ends, and its port.
func newHangingMail(t *testing.T) (*hangingMail, int) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	mail := &hangingMail{hang: make(chan struct{})}
	serving := smtp.NewServer(mail)
	ended := make(chan struct{})
	go func() { defer close(ended); _ = serving.Serve(listener) }()
	t.Cleanup(func() { close(mail.hang); _ = listener.Close(); _ = serving.Close(); <-ended })
	return mail, listener.Addr().(*net.TCPAddr).Port
}

func (m *hangingMail) NewSession(*smtp.Conn) (smtp.Session, error) { return mailSession{m}, nil }

type mailSession struct{ server *hangingMail }

func (mailSession) Mail(string, *smtp.MailOptions) error { return nil }
func (mailSession) Rcpt(string, *smtp.RcptOptions) error { return nil }
func (mailSession) Reset()                               {}
func (mailSession) Logout() error                        { return nil }

func (s mailSession) Data(r io.Reader) error {
	if _, err := io.Copy(io.Discard, r); err != nil {
		return err
	}
	if s.server.begun.Add(1) == 1 {
		<-s.server.hang
		return errors.New("the server ends")
	}
	s.server.accepted.Add(1)
	return nil
}

// At a rollout, a process that shuts down keeps its lease until its tasks have ended: otherwise another process would take them over while
// they run, and an e-mail would be sent twice.
func TestRollout_TakesNoTaskOfAProcessThatIsStillBusy(t *testing.T) {
	t.Parallel()
	mail, port := newHangingMail(t)
	r := startTwo(t, 1<<20, "SERVICE_SMTP_HOST=127.0.0.1", "SERVICE_SMTP_PORT="+strconv.Itoa(port), "SERVICE_SMTP_TLS=none", "SERVICE_MAIL_FROM=login@media.example",
		"SERVICE_SMTP_TIMEOUT=2m", "SERVICE_IMAGE_ENABLED=false")
	r.askForCode(t)
	testwait.Until(t, "the e-mail is being sent", func() bool { return mail.begun.Load() == 1 })
	// Only a process that has been alive for the time of a lease takes tasks over.
	r.QueryInt(t, `WITH older AS (UPDATE runtime_instance SET alive_since = now() - interval '1 hour' RETURNING 1) SELECT count(*) FROM older`)
	stopping, other := r.holder(t, "mediastack_work_running")
	must(t, stopping.Signal(syscall.SIGTERM))
	testwait.Until(t, "the other process has sent the e-mail", func() bool { return mail.accepted.Load() == 1 && r.QueryInt(t, `SELECT count(*) FROM work`) == 0 })
	log, err := os.ReadFile(other.Spec.LogFile)
	must(t, err)
	if strings.Contains(string(log), "tasks of another process are continued") {
		t.Errorf("the other process did not wait until the attempt had ended:\n%s", log)
	}
	log, err = os.ReadFile(stopping.Spec.LogFile)
	must(t, err)
	if !strings.Contains(string(log), "a task is left to another process") {
		t.Errorf("the process that shut down has not given its task back:\n%s", log)
	}
	if mail.begun.Load() != 2 {
		t.Errorf("%d attempts", mail.begun.Load())
	}
}

// askForCode has the owner of the account ask the first process for an e-mail with a code.
func (r *twoRuntimes) askForCode(t *testing.T) {
	t.Helper()
	const application = "https://application.example/callback"
	var client struct {
		ID string `json:"client_id"`
	}
	if status := r.askJSON(t, r.first, http.MethodPost, "/oauth/register", `{"client_name": "Gopher", "redirect_uris": ["`+application+`"]}`, &client); status != http.StatusCreated {
		t.Fatalf("%d", status)
	}
	challenge := sha256.Sum256([]byte("a-verifier-of-forty-three-characters-or-more-0"))
	query := url.Values{"response_type": {"code"}, "client_id": {client.ID}, "redirect_uri": {application}, "code_challenge": {base64.RawURLEncoding.EncodeToString(challenge[:])}, "code_challenge_method": {"S256"}}
	noMail := filepath.Join(testenv.TempDir(t), "mail.log")
	must(t, os.WriteFile(noMail, nil, 0o600))
	webuser.New(t, r.tenant.Account.Owners[0], noMail, nil).AskForCode(r.first.BaseURL + "/oauth/authorize?" + query.Encode())
}
