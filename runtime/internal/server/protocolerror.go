package server

import (
	"bytes"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/httpapi"
)

// Write sends bytes of a response. What is written before a handler runs is the response of net/http
// to a request that it rejects itself, in plain text: clients get an error of the service instead.
func (c *connection) Write(b []byte) (int, error) {
	if c.handled.Load() {
		return c.TCPConn.Write(b)
	}
	response, ok := protocolError(b, c.head.problem())
	if !ok {
		return c.TCPConn.Write(b)
	}
	if _, err := c.TCPConn.Write(response); err != nil {
		return 0, err
	}
	return len(b), nil
}

// setHandled sets whether the bytes that follow are those of a handler. It does nothing for a nil
// connection.
func (c *connection) setHandled(handled bool) {
	if c != nil {
		if !handled {
			c.head = requestHead{}
		}
		c.handled.Store(handled)
	}
}

// Read receives bytes. Those that arrive before a handler runs are the head of a request.
func (c *connection) Read(b []byte) (int, error) {
	n, err := c.TCPConn.Read(b)
	if n > 0 && !c.handled.Load() {
		c.head.scan(b[:n])
	}
	return n, err
}

// protocolDetails are the details of the statuses for which net/http has none.
var protocolDetails = map[int]string{
	http.StatusExpectationFailed:           "the only supported expectation is 100-continue",
	http.StatusRequestHeaderFieldsTooLarge: fmt.Sprintf("the request line and the headers must be at most %d bytes", headerLimit),
}

// protocolError returns the response of the service instead of that of net/http. ok is false for
// bytes that are no response, such as a TLS record. Its text is that of a request which is invalid on POST /media/create: no
// route is known yet. problem says what is wrong with a request that net/http calls a bad one.
func protocolError(plain []byte, problem string) (response []byte, ok bool) {
	head, text, _ := bytes.Cut(plain, []byte("\r\n\r\n"))
	line, _, _ := strings.Cut(string(head), "\r\n")
	version, rest, _ := strings.Cut(line, " ")
	number, _, _ := strings.Cut(rest, " ")
	status, err := strconv.Atoi(number)
	if !strings.HasPrefix(version, "HTTP/1.") || err != nil || status < http.StatusBadRequest {
		return nil, false
	}
	detail := strings.TrimSpace(string(text))
	if after, found := strings.CutPrefix(detail, number+" "+http.StatusText(status)); found {
		detail = strings.TrimPrefix(after, ": ")
	}
	switch {
	case detail != "":
	case status == http.StatusBadRequest:
		detail = problem
	default:
		detail = protocolDetails[status]
	}
	described := httpapi.DescribeStatus(status, fault.New(fault.Invalid, "%s", detail)).Body
	described.Error = http.StatusText(http.StatusBadRequest)
	body, err := httpapi.EncodeJSON(described)
	if err != nil {
		return nil, false
	}
	return fmt.Appendf(nil, "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n%s\n",
		status, http.StatusText(status), len(body)+1, body), true
}
