package scanner_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/gate"
	"mediastack.dev/runtime/internal/scanner"
	"mediastack.dev/runtime/preflight"
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

// compound returns a file of the format of OLE, with a stream in which the data goes on in another sector than the next one: who reads the file as
// a whole does not find it.
func compound(data []byte) []byte {
	const sector = 512
	file := make([]byte, sector*11)
	le := binary.LittleEndian
	copy(file, "\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1")
	le.PutUint16(file[24:], 0x3e)
	le.PutUint16(file[26:], 3)
	le.PutUint16(file[28:], 0xfffe)
	le.PutUint16(file[30:], 9) // sectors of 512 bytes
	le.PutUint16(file[32:], 6) // and of 64
	le.PutUint32(file[44:], 1) // one sector has the table of sectors
	le.PutUint32(file[48:], 1) // the directory
	le.PutUint32(file[56:], 4096)
	const none, end = 0xffffffff, 0xfffffffe
	le.PutUint32(file[60:], end)
	le.PutUint32(file[68:], end)
	for at := 76; at < sector; at += 4 {
		le.PutUint32(file[at:], none)
	}
	le.PutUint32(file[76:], 0)
	at := func(n int) []byte { return file[sector*(n+1):] }
	chain := []int{2, 4, 3, 5, 6, 7, 8, 9}
	for n := range sector / 4 {
		le.PutUint32(at(0)[4*n:], none)
	}
	le.PutUint32(at(0), 0xfffffffd)
	le.PutUint32(at(0)[4:], end)
	for i, n := range chain {
		next := uint32(end)
		if i+1 < len(chain) {
			next = uint32(chain[i+1])
		}
		le.PutUint32(at(0)[4*n:], next)
	}
	entry := func(n int, name string, kind byte, child, start, size uint32) {
		e := at(1)[128*n:]
		for i, c := range utf16.Encode([]rune(name)) {
			le.PutUint16(e[2*i:], c)
		}
		le.PutUint16(e[64:], uint16(2*len(name)+2))
		e[66], e[67] = kind, 1
		le.PutUint32(e[68:], none)
		le.PutUint32(e[72:], none)
		le.PutUint32(e[76:], child)
		le.PutUint32(e[116:], start)
		le.PutUint32(e[120:], size)
	}
	entry(0, "Root Entry", 5, 1, end, 0)
	entry(1, "Package", 2, none, uint32(chain[0]), 4096)
	stream := make([]byte, 4096)
	copy(stream[sector-20:], data)
	for i, n := range chain {
		copy(at(n)[:sector], stream[sector*i:])
	}
	return file
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
		"OLE":                {compound(eicar), gate.Infected},
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
	if got, err := client.Scan(t.Context(), strings.NewReader("text"), 4); err == nil || errors.Is(err, gate.ErrFile) || errors.Is(err, gate.ErrInterrupted) {
		t.Errorf("%+v, %v", got, err)
	}
	if err := client.Ping(t.Context()); err == nil {
		t.Error("clamd that is away answers")
	}
	clamd.Start()
	must(t, client.Ping(t.Context()))
	if got, err := client.Scan(t.Context(), strings.NewReader("text"), 4); err != nil || got.Outcome != gate.Clean {
		t.Errorf("%+v, %v", got, err)
	}
}

// A clamd that dies while it has a file was not away.
func TestClamd_IsInterruptedWhenItDies(t *testing.T) {
	t.Parallel()
	clamd := testenv.ClamdServer(t)
	client := of(t, account.ScannerClamd, func(c *scanner.Config) { c.Clamd = "tcp://" + clamd.Server.Address })
	file := io.MultiReader(strings.NewReader(strings.Repeat("text", 100_000)), readFunc(func([]byte) (int, error) { clamd.Kill(); return 0, io.EOF }))
	if got, err := client.Scan(t.Context(), file, 400_000); !errors.Is(err, gate.ErrInterrupted) {
		t.Errorf("%+v, %v", got, err)
	}
}

// readFunc is a reader.
type readFunc func(p []byte) (int, error)

// Read calls the function.
func (f readFunc) Read(p []byte) (int, error) { return f(p) }

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
			if interrupted := err != nil && !want.file; errors.Is(err, gate.ErrInterrupted) != interrupted {
				t.Errorf("the file may be the cause of %v", err)
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
			if got, err := client.Scan(t.Context(), strings.NewReader("text"), 4); !errors.Is(err, gate.ErrInterrupted) {
				t.Errorf("%+v, %v", got, err)
			}
			if err := client.Ping(t.Context()); err == nil {
				t.Error("a scanner that hangs answers")
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
				if len(data) > 0 { // else it is asked whether it is there
					read = r.Method + " " + r.URL.Path + " " + string(data)
				}
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
			if errors.Is(err, gate.ErrInterrupted) != (c.status == http.StatusInternalServerError) {
				t.Errorf("the file may be the cause of %v", err)
			}
			answers := c.want != "" || c.file
			if err := client.Ping(t.Context()); (err == nil) != answers {
				t.Errorf("the scanner is there: %v", err)
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
	if _, err := client.Scan(t.Context(), strings.NewReader("text"), 4); err == nil || strings.Contains(err.Error(), "secret") || errors.Is(err, gate.ErrInterrupted) {
		t.Errorf("a service that is away: %v", err)
	}
	if got, err := client.Scan(t.Context(), strings.NewReader("text"), 4); err != nil || got.Outcome != gate.Clean {
		t.Errorf("%+v, %v", got, err)
	}
}

// The scanner is there if one of its services answers.
func TestHTTP_PingAsksEachService(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"verdict":"clean"}`) }))
	t.Cleanup(server.Close)
	away := httptest.NewServer(http.NotFoundHandler())
	away.Close()
	must(t, of(t, account.ScannerHTTP, func(cfg *scanner.Config) { cfg.URLs = []string{away.URL, away.URL, server.URL} }).Ping(t.Context()))
	if err := of(t, account.ScannerHTTP, func(cfg *scanner.Config) { cfg.URLs = []string{away.URL, away.URL} }).Ping(t.Context()); err == nil {
		t.Error("services that are away answer")
	}
}

func TestPreflight_AsksEachScanner(t *testing.T) {
	t.Parallel()
	clamd := testenv.ClamdServer(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"verdict":"clean"}`) }))
	t.Cleanup(server.Close)
	away := httptest.NewServer(http.NotFoundHandler())
	away.Close()
	report := &preflight.Report{}
	scanner.Preflight(t.Context(), scanner.Config{Clamd: "tcp://" + clamd.Server.Address, URLs: []string{strings.Replace(away.URL, "//", "//user:secret@", 1), server.URL}, Idle: time.Hour}, report)
	clamd.Kill()
	scanner.Preflight(t.Context(), scanner.Config{Clamd: "tcp://" + clamd.Server.Address, Idle: time.Hour}, report)
	scanner.Preflight(t.Context(), scanner.Config{Idle: time.Hour}, report)
	var got []preflight.Outcome
	for _, finding := range report.Findings {
		got = append(got, finding.Outcome)
		if strings.Contains(finding.Text, "secret") {
			t.Error(finding.Text)
		}
	}
	if want := []preflight.Outcome{preflight.Works, preflight.Missing, preflight.Works, preflight.Missing}; !slices.Equal(got, want) {
		t.Errorf("%+v", report.Findings)
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
