package scanner_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/gate"
	"mediastack.dev/runtime/internal/scanner"
)

func TestMain(m *testing.M) { testenv.Main(m) }

var must = check.NoError

// of returns the scanner of a configuration.
func of(t *testing.T, name string, change func(*scanner.Config)) gate.Scanner {
	t.Helper()
	cfg := scanner.Config{Idle: time.Hour}
	change(&cfg)
	scanners, err := cfg.Scanners()
	must(t, err)
	if len(scanners) != 1 || scanners[name] == nil {
		t.Fatalf("the scanners are %v", scanners)
	}
	return scanners[name]
}

func zipped(t *testing.T, name string, data []byte) []byte {
	t.Helper()
	var archive bytes.Buffer
	w := zip.NewWriter(&archive)
	file, err := w.Create(name)
	must(t, err)
	must(t, check.ErrorOf(file.Write(data)))
	must(t, w.Close())
	return archive.Bytes()
}

func gzipped(t *testing.T, data []byte) []byte {
	t.Helper()
	var archive bytes.Buffer
	w := gzip.NewWriter(&archive)
	must(t, check.ErrorOf(w.Write(data)))
	must(t, w.Close())
	return archive.Bytes()
}

func tarred(t *testing.T, name string, data []byte) []byte {
	t.Helper()
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	must(t, w.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(data))}))
	must(t, check.ErrorOf(w.Write(data)))
	must(t, w.Close())
	return archive.Bytes()
}

// document returns a PDF document with an attachment, which is compressed.
func document(t *testing.T, data []byte) []byte {
	t.Helper()
	var packed bytes.Buffer
	w := zlib.NewWriter(&packed)
	must(t, check.ErrorOf(w.Write(data)))
	must(t, w.Close())
	return fmt.Appendf(nil, "%%PDF-1.4\n1 0 obj\n<</Type/Catalog/Pages 2 0 R>>\nendobj\n2 0 obj\n<</Type/Pages/Kids[]/Count 0>>\nendobj\n"+
		"3 0 obj\n<</Type/EmbeddedFile/Filter/FlateDecode/Length %d>>\nstream\n%s\nendstream\nendobj\ntrailer\n<</Root 1 0 R>>\n%%%%EOF\n", packed.Len(), packed.Bytes())
}

func message(data []byte) []byte {
	return []byte("From: a@example.org\r\nTo: b@example.org\r\nSubject: x\r\nMIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=x\r\n\r\n--x\r\n" +
		"Content-Type: application/octet-stream\r\nContent-Transfer-Encoding: base64\r\nContent-Disposition: attachment; filename=a.com\r\n\r\n" +
		base64.StdEncoding.EncodeToString(data) + "\r\n--x--\r\n")
}

func TestClamd_FindsTheTestFileHoweverItIsPacked(t *testing.T) {
	t.Parallel()
	clamd := testenv.ClamdServer(t)
	client := of(t, account.ScannerClamd, func(c *scanner.Config) { c.Clamd = "tcp://" + clamd.Server.Address })
	eicar := testenv.EICAR()
	for name, c := range map[string]struct {
		file []byte
		want gate.Outcome
	}{
		"plain":              {eicar, gate.Infected},
		"zip":                {zipped(t, "a.com", eicar), gate.Infected},
		"zip in zip in zip":  {zipped(t, "b.zip", zipped(t, "a.zip", zipped(t, "a.com", eicar))), gate.Infected},
		"gzip":               {gzipped(t, eicar), gate.Infected},
		"tar":                {tarred(t, "a.com", eicar), gate.Infected},
		"tar in gzip":        {gzipped(t, tarred(t, "a.com", eicar)), gate.Infected},
		"Office document":    {zipped(t, "word/vbaProject.bin", eicar), gate.Infected},
		"PDF":                {document(t, eicar), gate.Infected},
		"e-mail":             {message(eicar), gate.Infected},
		"nothing":            {nil, gate.Clean},
		"text":               {[]byte("text"), gate.Clean},
		"several chunks":     {bytes.Repeat([]byte("text"), 100_000), gate.Clean},
		"more than clamd's":  {bytes.Repeat([]byte("text"), 3<<20), gate.Unscannable},
		"at the end of much": {append(bytes.Repeat([]byte("text"), 100_000), eicar...), gate.Infected},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := client.Scan(t.Context(), bytes.NewReader(c.file), int64(len(c.file)))
			if err != nil || got.Outcome != c.want || (c.want == gate.Clean) != (got.Name == "") {
				t.Errorf("%+v, %v; want %s", got, err, c.want)
			}
		})
	}
}

// errDisk is the error of a file that cannot be read.
var errDisk = errors.New("the disk fails")

// A file of which a part was read has no result, and says nothing of clamd.
func TestClamd_AFileThatCannotBeReadHasNoResult(t *testing.T) {
	t.Parallel()
	clamd := testenv.ClamdServer(t)
	client := of(t, account.ScannerClamd, func(c *scanner.Config) { c.Clamd = "tcp://" + clamd.Server.Address })
	if got, err := client.Scan(t.Context(), io.MultiReader(strings.NewReader(strings.Repeat("text", 100_000)), failing{}), 1<<20); !errors.Is(err, errDisk) {
		t.Errorf("%+v, %v", got, err)
	}
}

type failing struct{}

// Read fails.
func (failing) Read([]byte) (int, error) { return 0, errDisk }

func TestClamd_IsNotAvailableWhileItIsAway(t *testing.T) {
	t.Parallel()
	clamd := testenv.ClamdServer(t)
	client := of(t, account.ScannerClamd, func(c *scanner.Config) { c.Clamd = "tcp://" + clamd.Server.Address })
	clamd.Kill()
	if got, err := client.Scan(t.Context(), strings.NewReader("text"), 4); err == nil || errors.Is(err, gate.ErrFile) {
		t.Errorf("%+v, %v", got, err)
	}
	clamd.Start()
	if got, err := client.Scan(t.Context(), strings.NewReader("text"), 4); err != nil || got.Outcome != gate.Clean {
		t.Errorf("%+v, %v", got, err)
	}
}

// fake answers each connection with a text, once it has read something. A zero byte ends an answer.
func fake(t *testing.T, answer string, hang bool) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				_, _ = conn.Read(make([]byte, 4))
				_, _ = io.WriteString(conn, answer)
				if hang {
					_, _ = io.Copy(io.Discard, conn)
					<-t.Context().Done()
				}
			}()
		}
	}()
	return listener.Addr().String()
}

func TestClamd_Answers(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]struct {
		result gate.Outcome
		file   bool // the error is about the file
	}{
		"stream: OK\x00":             {result: gate.Clean},
		"stream: Win.Test FOUND\x00": {result: gate.Infected},
		"stream: Heuristics.Limits.Exceeded.MaxFileSize FOUND\x00": {result: gate.Unscannable},
		"stream: Heuristics.Encrypted.Zip FOUND\x00":               {result: gate.Unscannable},
		"INSTREAM size limit exceeded. ERROR\x00":                  {result: gate.Unscannable},
		"stream: Can't create temporary file ERROR\x00":            {file: true},
		"UNKNOWN COMMAND\x00":                                      {file: true},
		"stream:  FOUND\x00":                                       {file: true},
		"stream: OK":                                               {}, // it was cut off
		"":                                                         {},
		"stream: " + strings.Repeat("x", 10_000) + " FOUND\x00":      {},
		"stream: A\nB\x1b[1m FOUND\x00":                              {result: gate.Infected},
		"stream: OK FOUND\x00":                                       {result: gate.Infected},
		"stream: " + strings.Repeat("y", 1_000) + "\u00e9 FOUND\x00": {result: gate.Infected},
	} {
		t.Run(fmt.Sprintf("%.40q", answer), func(t *testing.T) {
			t.Parallel()
			address := fake(t, answer, strings.HasSuffix(answer, "\x00"))
			client := of(t, account.ScannerClamd, func(c *scanner.Config) { c.Clamd = "tcp://" + address })
			got, err := client.Scan(t.Context(), strings.NewReader("text"), 4)
			if got.Outcome != want.result || (err == nil) != (want.result != "") || errors.Is(err, gate.ErrFile) != want.file {
				t.Errorf("%+v, %v", got, err)
			}
			if len(got.Name) > 200 || strings.ContainsAny(got.Name, "\n\x1b\u00e9") {
				t.Errorf("the name is %q", got.Name)
			}
		})
	}
}

// A scanner that says nothing holds a scan up for its time, and for no longer than the context lasts.
func TestScanners_ThatHangEnd(t *testing.T) {
	t.Parallel()
	silent := fake(t, "", true)
	for name, change := range map[string]func(*scanner.Config){
		account.ScannerClamd: func(c *scanner.Config) { c.Clamd = "tcp://" + silent },
		account.ScannerHTTP:  func(c *scanner.Config) { c.URLs = []string{"http://" + silent + "/"} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := of(t, name, func(c *scanner.Config) { change(c); c.Idle = 50 * time.Millisecond })
			if got, err := client.Scan(t.Context(), strings.NewReader("text"), 4); err == nil {
				t.Errorf("%+v", got)
			}
			unhurried := of(t, name, change)
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() {
				_, err := unhurried.Scan(ctx, strings.NewReader("text"), 4)
				ended <- err
			}()
			cancel()
			if err := wait.Receive(t, "the end of a scan", ended); err == nil {
				t.Error("a scan that was interrupted has a result")
			}
		})
	}
}

func TestHTTP_Answers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status int
		body   string
		want   gate.Outcome
		file   bool
	}{
		"clean":        {200, `{"verdict":"clean","name":""}`, gate.Clean, false},
		"infected":     {200, `{"verdict":"infected","name":"X"}`, gate.Infected, false},
		"no name":      {200, `{"verdict":"infected"}`, gate.Infected, false},
		"unscannable":  {200, `{"verdict":"unscannable","name":"it is encrypted"}`, gate.Unscannable, false},
		"too large":    {413, ``, gate.Unscannable, false},
		"not readable": {422, ``, "", true},
		"a new one":    {200, `{"verdict":"dubious"}`, "", false},
		"no JSON":      {200, `clean`, "", false},
		"empty":        {200, ``, "", false},
		"no result":    {200, `{}`, "", false},
		"long":         {200, `{"verdict":"clean","name":"` + strings.Repeat("x", 20_000) + `"}`, "", false},
		"failing":      {500, `{"verdict":"clean"}`, "", false},
		"moved":        {307, `{"verdict":"clean"}`, "", false},
		"no content":   {204, ``, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var read string
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				data, _ := io.ReadAll(r.Body)
				read = r.Method + " " + r.URL.Path + " " + string(data)
				w.Header().Set("Location", "/other")
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, c.body)
			}))
			t.Cleanup(server.Close)
			client := of(t, account.ScannerHTTP, func(cfg *scanner.Config) { cfg.URLs = []string{server.URL + "/scan"} })
			got, err := client.Scan(t.Context(), strings.NewReader("text"), 4)
			if got.Outcome != c.want || (err == nil) != (c.want != "") || errors.Is(err, gate.ErrFile) != c.file || (c.want == gate.Infected) && got.Name == "" {
				t.Errorf("%+v, %v", got, err)
			}
			if read != "POST /scan text" {
				t.Errorf("the scanner has got %q", read)
			}
		})
	}
}

// A retry asks the next service.
func TestHTTP_AsksTheNextServiceAfterAFailure(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"verdict":"clean"}`) }))
	t.Cleanup(server.Close)
	away := httptest.NewServer(http.NotFoundHandler())
	away.Close()
	client := of(t, account.ScannerHTTP, func(cfg *scanner.Config) {
		cfg.URLs = []string{strings.Replace(away.URL, "http://", "http://user:secret@", 1), server.URL}
	})
	if _, err := client.Scan(t.Context(), strings.NewReader("text"), 4); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("a service that is away: %v", err)
	}
	if got, err := client.Scan(t.Context(), strings.NewReader("text"), 4); err != nil || got.Outcome != gate.Clean {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestConfig_RejectsAddresses(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"127.0.0.1:3310", "tcp://", "tcp://:3310", "tcp://host", "unix:clamd.sock", "http://host:1", "unix:"} {
		if err := (scanner.Config{Clamd: address, Idle: 1}).Validate(); err == nil {
			t.Errorf("%s is accepted", address)
		}
	}
	for _, url := range []string{"", "host", "ftp://host/", "http://", "http:///x", "http://host/#x"} {
		if err := (scanner.Config{URLs: []string{"http://user:secret@host/", url}, Idle: 1}).Validate(); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", url, err)
		}
	}
	if err := (scanner.Config{}).Validate(); err == nil {
		t.Error("no time is accepted")
	}
	for _, cfg := range []scanner.Config{{Idle: 1}, {Clamd: "unix:/run/clamd.sock", Idle: 1}, {Clamd: "tcp://[::1]:3310", URLs: []string{"https://host/a?b=c"}, Idle: 1}} {
		must(t, cfg.Validate())
	}
}
