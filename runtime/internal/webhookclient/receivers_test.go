package webhookclient_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/node"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/internal/webhookclient"
	"mediastack.dev/runtime/journal"
	"mediastack.dev/runtime/webhook"
)

// programTimeout is for one program. Others may run meanwhile.
const programTimeout = 5 * time.Minute

func newKey(t *testing.T) []byte {
	t.Helper()
	key := make([]byte, 32)
	_, err := rand.Read(key)
	must(t, err)
	return key
}

// sender sends messages to loopback, as the service does to receivers inside of the cluster.
func sender(t *testing.T) *webhookclient.Client {
	t.Helper()
	c, err := webhookclient.New(webhookclient.Config{AllowNetworks: []string{"127.0.0.0/8"}, Ports: []int{443}, Timeout: time.Minute}, webhookclient.Deps{})
	must(t, err)
	return c
}

// delivered returns the delivery of an event.
func delivered(t *testing.T, url string, format webhook.Format, number int64, keys ...[]byte) webhook.Message {
	t.Helper()
	e := journal.Event{Position: journal.Position{Epoch: 1, ID: number, At: time.Now()}, Type: journal.MediaSealed, AccountID: uuid.New(), AppID: uuid.New(), ItemID: uuid.New(), Sequence: 2,
		Group: "ü & <album>", Actor: account.Actor{Kind: account.ActorLogin, Name: "an application", Email: "a***@example.org"}, Fields: []string{"caption"}}
	contentType, body, err := webhook.Payload(format, e, webhook.About{Account: webhook.Account{ID: e.AccountID, Namespace: "team-a", Name: "demo"}, App: "default", Source: "https://media.example.org"})
	must(t, err)
	return webhook.Message{URL: url, ID: e.EventID(), Time: time.Now(), Keys: keys, ContentType: contentType, Body: body}
}

// answered requires the status of the answer to a message.
func answered(t *testing.T, what string, m webhook.Message, want int) {
	t.Helper()
	if answer, err := sender(t).Send(t.Context(), m); err != nil || answer.Status != want {
		t.Errorf("%s: %+v, %v, want %d", what, answer, err, want)
	}
}

var listening = regexp.MustCompile(`listening on (\d+)\n`)

// Both libraries verify what is sent, with one secret and while two sign, through 100 rotations.
func TestLibraries_VerifyThroughRotations(t *testing.T) {
	t.Parallel()
	packages := node.New(t, "runtime/internal/webhookclient/testdata")
	program := packages.Start(t, programTimeout, t.TempDir(), nil, packages.Script(t, "verify.mjs"), packages.Module("standardwebhooks"))
	url := "http://127.0.0.1:" + program.WaitForOutput(listening) + "/"
	accept := func(key []byte) {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPut, url, strings.NewReader(webhook.FormatSecret(key)))
		must(t, err)
		response, err := http.DefaultClient.Do(request)
		must(t, err)
		must(t, response.Body.Close())
	}
	current := newKey(t)
	accept(current)
	for n := range int64(100) {
		format := []webhook.Format{webhook.Standard, webhook.CloudEvents}[n%2]
		next := newKey(t)
		answered(t, "before the rotation", delivered(t, url, format, n, current), http.StatusNoContent)
		answered(t, "in the overlap, by the former secret", delivered(t, url, format, n, next, current), http.StatusNoContent)
		accept(next)
		answered(t, "in the overlap, by the next secret", delivered(t, url, format, n, next, current), http.StatusNoContent)
		answered(t, "with the former secret alone", delivered(t, url, format, n, current), http.StatusUnauthorized)
		if current = next; t.Failed() {
			return
		}
	}
	wrong(t, url, current, http.StatusNoContent)
}

// wrong requires that changed messages are rejected, and right ones accepted.
func wrong(t *testing.T, url string, key []byte, accepted int) {
	t.Helper()
	right := func() webhook.Message { return delivered(t, url, webhook.Standard, 7, newKey(t), key) }
	answered(t, "a right message", right(), accepted)
	answered(t, "a right message again", right(), accepted)
	for what, change := range map[string]func(*webhook.Message){
		"another secret":    func(m *webhook.Message) { m.Keys = [][]byte{newKey(t)} },
		"no signature":      func(m *webhook.Message) { m.Keys = nil },
		"a former time":     func(m *webhook.Message) { m.Time = time.Now().Add(-6 * time.Minute) },
		"a time to come":    func(m *webhook.Message) { m.Time = time.Now().Add(6 * time.Minute) },
		"a time without it": func(m *webhook.Message) { m.Time = time.Unix(0, 0) },
	} {
		m := right()
		change(&m)
		answered(t, what, m, http.StatusUnauthorized)
	}
	for what, change := range map[string]func(header http.Header, body []byte) []byte{
		"a changed body": func(_ http.Header, body []byte) []byte { return append(body, ' ') },
		"a changed id":   func(h http.Header, body []byte) []byte { h.Set(webhook.HeaderID, "1-8"); return body },
		"a changed time": func(h http.Header, body []byte) []byte {
			h.Set(webhook.HeaderTimestamp, fmt.Sprint(time.Now().Unix()+1))
			return body
		},
		"no time":    func(h http.Header, body []byte) []byte { h.Set(webhook.HeaderTimestamp, "soon"); return body },
		"no headers": func(h http.Header, body []byte) []byte { clear(h); return body },
		"another version": func(h http.Header, body []byte) []byte {
			h.Set(webhook.HeaderSignature, strings.ReplaceAll(h.Get(webhook.HeaderSignature), "v1,", "v2,"))
			return body
		},
		"a signature in it": func(h http.Header, body []byte) []byte { h.Set(webhook.HeaderSignature, "v1,"); return body },
	} {
		m := right()
		header := http.Header{webhook.HeaderID: {m.ID}, webhook.HeaderTimestamp: {webhook.Timestamp(m.Time)}, webhook.HeaderSignature: {webhook.Signature(m.Keys, m.ID, m.Time, m.Body)}}
		body := change(header, bytes.Clone(m.Body))
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, bytes.NewReader(body))
		must(t, err)
		request.Header = header
		response, err := http.DefaultClient.Do(request)
		must(t, err)
		if must(t, response.Body.Close()); response.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s: %s", what, response.Status)
		}
	}
}

// samples returns the commands that run the receivers of the guide.
func samples(t *testing.T) map[string][]string {
	t.Helper()
	folder := filepath.Join(testenv.RepoRoot(t), "docs/examples/webhooks")
	return map[string][]string{
		"Node":   {testenv.Program(t, "node"), filepath.Join(folder, "receiver.mjs")},
		"Python": {testenv.Program(t, "python3"), filepath.Join(folder, "receiver.py")},
		"Go":     {testenv.Program(t, "go"), "run", filepath.Join(folder, "receiver.go")},
	}
}

// The receivers of the guide accept what is right, once, and nothing else.
func TestSamples_VerifyAndDeduplicate(t *testing.T) {
	t.Parallel()
	for name, command := range samples(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			key := newKey(t)
			url, printed := start(t, key, command)
			wrong(t, url, key, http.StatusNoContent)
			tooLarge(t, url, key)
			if lines := printed(); len(lines) != 1 || lines[0] != "media.sealed 1-7" {
				t.Errorf("the receiver has handled %q", lines)
			}
		})
	}
}

// tooLarge requires that a receiver does not take a body that no delivery has, although it is signed.
func tooLarge(t *testing.T, url string, key []byte) {
	t.Helper()
	m := delivered(t, url, webhook.Standard, 9, key)
	m.Body = append(m.Body, strings.Repeat(" ", 65<<10)...)
	if answer, err := sender(t).Send(t.Context(), m); err == nil && answer.Status/100 != 4 {
		t.Errorf("a body of %d bytes: %+v", len(m.Body), answer)
	}
}

// With an empty secret forged messages are verified, so no receiver of the guide starts with one.
func TestSamples_DoNotStartWithoutASecret(t *testing.T) {
	t.Parallel()
	for name, command := range samples(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, secret := range []string{"", "whsec_", "whsec_c2hvcnQ="} {
				ctx, cancel := context.WithTimeout(t.Context(), programTimeout)
				cmd := exec.CommandContext(ctx, command[0], command[1:]...)
				prepare(cmd, secret)
				output, err := cmd.StdoutPipe()
				must(t, err)
				var problems bytes.Buffer
				cmd.Stderr = &problems
				must(t, cmd.Start())
				first, _ := bufio.NewReader(output).ReadString('\n') // a receiver that has started writes its port
				if first != "" {
					cancel()
				}
				if err := cmd.Wait(); err == nil || first != "" || !strings.Contains(problems.String(), "WEBHOOK_SECRET must be") {
					t.Errorf("%q: %v, %q, %s", secret, err, first, problems.String())
				}
				cancel()
			}
		})
	}
}

// prepare sets the environment of a receiver, and that it ends with all that it has started, as `go run` does.
func prepare(cmd *exec.Cmd, secret string) {
	cmd.Env = append(os.Environ(), "WEBHOOK_SECRET="+secret, "PORT=0", "GOWORK=off", "GOFLAGS=")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}

// start starts a receiver, and returns its URL and a function that ends it and returns what it has printed since.
func start(t *testing.T, key []byte, command []string) (url string, printed func() []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), programTimeout)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	prepare(cmd, webhook.FormatSecret(key))
	output, err := cmd.StdoutPipe()
	must(t, err)
	var problems bytes.Buffer
	cmd.Stderr = &problems
	must(t, cmd.Start())
	lines := bufio.NewReader(output)
	first, err := lines.ReadString('\n')
	match := listening.FindStringSubmatch(first)
	if match == nil {
		cancel()
		_ = cmd.Wait()
		t.Fatalf("%v: %q, %v\n%s", command, first, err, problems.String())
	}
	return "http://127.0.0.1:" + match[1] + "/", func() []string {
		cancel()
		rest, _ := io.ReadAll(lines)
		_ = cmd.Wait()
		return strings.FieldsFunc(string(rest), func(r rune) bool { return r == '\n' })
	}
}
