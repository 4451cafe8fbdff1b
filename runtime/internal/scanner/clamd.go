package scanner

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"

	"mediastack.dev/runtime/gate"
)

const (
	// chunkSize is how many bytes a chunk of INSTREAM has at most.
	chunkSize = 64 << 10
	// dialTimeout bounds a connection, and maxReply the bytes of an answer.
	dialTimeout = 5 * time.Second
	maxReply    = 4 << 10
	// maxName bounds the name of a finding, in bytes.
	maxName = 200
)

// Clamd is a client of clamd. Each scan has a connection of its own, as clamd closes one whose file is too large.
type Clamd struct {
	network, address string
	idle             time.Duration
}

var _ gate.Scanner = (*Clamd)(nil)

// Scan implements gate.Scanner with the command INSTREAM.
func (c *Clamd) Scan(ctx context.Context, file io.Reader, _ int64) (gate.Result, error) {
	conn, closeConn, err := c.dial(ctx)
	if err != nil {
		return gate.Result{}, err
	}
	defer closeConn()
	sendErr := c.send(ctx, conn, file)
	reply, err := c.receive(ctx, conn) // clamd answers before it closes a connection of which it reads no more
	switch {
	case sendErr != nil && err != nil:
		return gate.Result{}, sendErr
	case err != nil:
		return gate.Result{}, interrupted(err)
	}
	result, err := parseReply(reply)
	if err == nil && result.Outcome == gate.Clean && sendErr != nil { // of a part of the file
		return gate.Result{}, sendErr
	}
	return result, err
}

// Ping implements gate.Scanner with the command PING.
func (c *Clamd) Ping(ctx context.Context) error {
	conn, closeConn, err := c.dial(ctx)
	if err != nil {
		return err
	}
	defer closeConn()
	err = c.write(ctx, conn, []byte("zPING\x00"))
	var reply string
	if err == nil {
		reply, err = c.receive(ctx, conn)
	}
	if err == nil && reply != "PONG" {
		err = fmt.Errorf("it answers PING with %s", printable(reply))
	}
	if err != nil {
		return fmt.Errorf("clamd: %w", err)
	}
	return nil
}

// dial connects to clamd. The deadline of ctx ends what waits for the connection, which closeConn closes.
func (c *Clamd) dial(ctx context.Context) (conn net.Conn, closeConn func(), err error) {
	dialer := net.Dialer{Timeout: dialTimeout}
	if conn, err = dialer.DialContext(ctx, c.network, c.address); err != nil {
		return nil, nil, fmt.Errorf("clamd: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	return conn, func() { stop(); _ = conn.Close() }, nil
}

// interrupted returns the error of a scan that has begun and has no result.
func interrupted(err error) error { return fmt.Errorf("%w: clamd: %w", gate.ErrInterrupted, err) }

// send sends the file in chunks. An error of file is returned as it is, and ends the scan.
func (c *Clamd) send(ctx context.Context, conn net.Conn, file io.Reader) error {
	if err := c.write(ctx, conn, []byte("zINSTREAM\x00")); err != nil {
		return interrupted(err)
	}
	buffer := make([]byte, 4+chunkSize)
	for {
		n, readErr := io.ReadFull(file, buffer[4:])
		if n > 0 {
			binary.BigEndian.PutUint32(buffer, uint32(n)) //nolint:gosec // at most chunkSize
			if err := c.write(ctx, conn, buffer[:4+n]); err != nil {
				return interrupted(err)
			}
		}
		switch {
		case readErr == nil:
		case errors.Is(readErr, io.EOF), errors.Is(readErr, io.ErrUnexpectedEOF):
			if err := c.write(ctx, conn, []byte{0, 0, 0, 0}); err != nil {
				return interrupted(err)
			}
			return nil
		default:
			_ = conn.Close() // without the last chunk, there is no result
			return readErr
		}
	}
}

// write writes with a deadline. That of ctx is not reset.
func (c *Clamd) write(ctx context.Context, conn net.Conn, data []byte) error {
	if err := c.extend(ctx, conn); err != nil {
		return err
	}
	_, err := conn.Write(data)
	return timeoutError(ctx, err)
}

// receive reads the answer, which ends with a zero byte.
func (c *Clamd) receive(ctx context.Context, conn net.Conn) (string, error) {
	if err := c.extend(ctx, conn); err != nil {
		return "", err
	}
	reply, err := bufio.NewReader(io.LimitReader(conn, maxReply)).ReadString(0)
	if err != nil && reply == "" || err != nil && !errors.Is(err, io.EOF) {
		return "", timeoutError(ctx, err)
	}
	if !strings.HasSuffix(reply, "\x00") {
		return "", errors.New("the answer is not complete")
	}
	return strings.TrimSuffix(reply, "\x00"), nil
}

// extend sets the deadline of the next operation.
func (c *Clamd) extend(ctx context.Context, conn net.Conn) error {
	if err := conn.SetDeadline(time.Now().Add(c.idle)); err != nil {
		return err
	}
	return ctx.Err() // after the deadline of the context was set by AfterFunc, this call has replaced it
}

// timeoutError returns the error of an operation that took too long.
func timeoutError(ctx context.Context, err error) error {
	if ctx.Err() == nil && errors.Is(err, os.ErrDeadlineExceeded) {
		return errors.New("it has not answered within SERVICE_GATE_IDLE_TIMEOUT")
	}
	return err
}

// unscannableNames are the beginnings of the names by which clamd says that it has not scanned all of a file, if it is configured to
// (AlertExceedsMax, AlertEncrypted, AlertBrokenMedia).
var unscannableNames = []string{"Heuristics.Limits.Exceeded", "Heuristics.Encrypted.", "Heuristics.Broken."}

// parseReply returns the result in an answer of clamd.
func parseReply(reply string) (gate.Result, error) {
	text := strings.TrimSpace(reply)
	switch {
	case text == "stream: OK":
		return gate.Result{Outcome: gate.Clean}, nil
	case strings.Contains(text, "size limit exceeded") && strings.HasSuffix(text, "ERROR"):
		return gate.Result{Outcome: gate.Unscannable, Name: "it is larger than StreamMaxLength of clamd"}, nil
	case strings.HasSuffix(text, " ERROR"):
		return gate.Result{}, fmt.Errorf("%w: clamd: %s", gate.ErrFile, printable(strings.TrimSuffix(text, " ERROR")))
	}
	found, ok := strings.CutPrefix(text, "stream: ")
	name, ok2 := strings.CutSuffix(found, " FOUND")
	if !ok || !ok2 || name == "" {
		return gate.Result{}, fmt.Errorf("%w: clamd answers %s", gate.ErrFile, printable(text))
	}
	for _, prefix := range unscannableNames {
		if strings.HasPrefix(name, prefix) {
			return gate.Result{Outcome: gate.Unscannable, Name: printable(name)}, nil
		}
	}
	return gate.Result{Outcome: gate.Infected, Name: printable(name)}, nil
}

// printable returns a text of a scanner as tenants and admins may read it: short, of one line.
func printable(text string) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, text)
	if len(text) > maxName {
		text = text[:maxName]
	}
	return text
}
