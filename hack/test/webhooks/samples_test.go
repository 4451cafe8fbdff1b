// Package webhooks_test sends malformed requests to the receivers of the guide "Receive webhooks". What is well formed is sent by the tests of
// package webhookclient.
package webhooks_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/runtime/webhook"
)

// programTimeout is for one program. Others may run meanwhile.
const programTimeout = 5 * time.Minute

var (
	listening = regexp.MustCompile(`^listening on (\d+)\n$`)
	key       = bytes.Repeat([]byte("k"), 32)
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A request that nobody has signed is answered 4xx, whatever it has, and the receiver handles the next event. The one in Python once wrote a
// traceback and gave no answer to a time or a length of hundreds of digits.
func TestSamples_AnswerMalformedRequests(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(testenv.RepoRoot(t), "docs/examples/webhooks")
	for name, command := range map[string]func(t *testing.T) []string{
		"Node": func(t *testing.T) []string {
			return []string{testenv.Program(t, "node"), filepath.Join(folder, "receiver.mjs")}
		},
		"Python": func(t *testing.T) []string {
			return []string{testenv.Program(t, "python3"), filepath.Join(folder, "receiver.py")}
		},
		"Go": func(t *testing.T) []string { return []string{build(t, filepath.Join(folder, "receiver.go"))} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := start(t, command(t))
			for what, request := range malformed() {
				if status := r.send(t, request); status/100 != 4 {
					t.Errorf("%s: %d, want 4xx", what, status)
				}
			}
			// The one in Node ended with an exception.
			for _, body := range []string{"", "no JSON", `{"type":`, "null", "7", `"text"`, "[]", "{}", `{"type":"media.sealed","data":null}`, `{"type":"media.sealed","data":[]}`, "\xff\xfe"} {
				if status := r.send(t, signed(body)); status != http.StatusBadRequest {
					t.Errorf("a signed %q: %d, want 400", body, status)
				}
			}
			if status := r.send(t, signed(`{"type":"media.sealed","data":{"id":"1-7"}}`)); status != http.StatusNoContent {
				t.Errorf("a right message after them: %d", status)
			}
			handled, problems := r.stop()
			if handled != "media.sealed 1-7\n" || problems != "" {
				t.Errorf("the receiver has handled %q, and has written: %s", handled, problems)
			}
		})
	}
}

// malformed returns requests that no service sends.
func malformed() map[string]string {
	digits := strings.Repeat("9", 400)
	requests := map[string]string{
		"no length and no body":             post(""),
		"a length of thousands of digits":   post("Content-Length: " + strings.Repeat("9", 5000) + "\r\n"),
		"a length that no number has":       post("Content-Length: " + digits + "\r\n"),
		"a length below zero":               post("Content-Length: -1\r\n"),
		"a length in words":                 post("Content-Length: two\r\n"),
		"chunks that are not signed":        post("Transfer-Encoding: chunked\r\n") + "2\r\n{}\r\n0\r\n\r\n",
		"bytes that are no text in headers": with("1", "\xff\xfe", "v1,\xff"),
		"a signature that is no base64":     with(now(), "1", "v1,%%%"),
		"a signature without a version":     with(now(), "1", "AAAA"),
		"a comma as signature":              with(now(), "1", ","),
		"many signatures":                   with(now(), "1", strings.Repeat("v1,AAAA ", 500)),
	}
	for _, sent := range []string{"", "-1", "1e9", "0x10", "NaN", "Infinity", "-Infinity", "9223372036854775807", "-9223372036854775808", digits, "-" + digits, strings.Repeat("9", 5000)} {
		requests["the time "+sent[:min(len(sent), 20)]] = with(sent, "1", "v1,AAAA")
	}
	return requests
}

func now() string { return webhook.Timestamp(time.Now()) }

func post(headers string) string {
	return "POST / HTTP/1.1\r\nHost: receiver\r\nConnection: close\r\n" + headers + "\r\n"
}

// with returns a request with the headers of a delivery.
func with(timestamp, id, signatures string) string {
	return post(webhook.HeaderTimestamp+": "+timestamp+"\r\n"+webhook.HeaderID+": "+id+"\r\n"+webhook.HeaderSignature+": "+signatures+"\r\nContent-Length: 2\r\n") + "{}"
}

// signed returns a right delivery.
func signed(body string) string {
	at := time.Now()
	return post(fmt.Sprintf("%s: %s\r\n%s: 1-7\r\n%s: %s\r\nContent-Length: %d\r\n", webhook.HeaderTimestamp, webhook.Timestamp(at), webhook.HeaderID,
		webhook.HeaderSignature, webhook.Signature([][]byte{key}, "1-7", at, []byte(body)), len(body))) + body
}

// build builds a receiver: `go run` would leave it running.
func build(t *testing.T, source string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "receiver")
	cmd := exec.CommandContext(t.Context(), testenv.Program(t, "go"), "build", "-o", program, source)
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	if output, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	return program
}

// receiver is a running receiver.
type receiver struct {
	address string
	// stop ends it, and returns what it has printed since it listens, and what it has written about problems.
	stop func() (handled, problems string)
}

func start(t *testing.T, command []string) receiver {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), programTimeout)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Env = append(os.Environ(), "WEBHOOK_SECRET="+webhook.FormatSecret(key), "PORT=0")
	output, err := cmd.StdoutPipe()
	must(t, err)
	var problems bytes.Buffer
	cmd.Stderr = &problems
	must(t, cmd.Start())
	lines := bufio.NewReader(output)
	stop := func() (string, string) {
		cancel()
		rest, _ := io.ReadAll(lines)
		_ = cmd.Wait() // it was killed
		return string(rest), problems.String()
	}
	first, err := lines.ReadString('\n')
	match := listening.FindStringSubmatch(first)
	if match == nil {
		_, written := stop()
		t.Fatalf("%v: %q, %v, %s", command, first, err, written)
	}
	return receiver{"127.0.0.1:" + match[1], stop}
}

// send sends the bytes of a request, and returns the status of its answer; 0 = there was none.
func (r receiver) send(t *testing.T, request string) int {
	t.Helper()
	var dialer net.Dialer
	connection, err := dialer.DialContext(t.Context(), "tcp", r.address)
	must(t, err)
	defer connection.Close()
	must(t, connection.SetDeadline(time.Now().Add(programTimeout)))
	_, err = io.WriteString(connection, request)
	must(t, err)
	response, err := http.ReadResponse(bufio.NewReader(connection), nil)
	if err != nil {
		return 0
	}
	must(t, response.Body.Close())
	return response.StatusCode
}
