package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/httpapi"
)

// message is one message of a body, as far as it is validated before the SDK reads it.
type message struct {
	text   json.RawMessage
	method string          // empty for a response
	id     json.RawMessage // nil for a notification
	idKey  string          // equal for equal ids
	params json.RawMessage // nil when there are none
}

// rpcError is a JSON-RPC error: of a body that is rejected as a whole, or of a single request.
type rpcError struct {
	error                  // the fault
	code   int64           // JSON-RPC's
	id     json.RawMessage // nil when it is not known, or of no single message
	status int             // of the HTTP answer; 0 = by the kind of the fault
	data   any             // of the error object; nil = none
}

// Unwrap returns the fault.
func (e rpcError) Unwrap() error { return e.error }

// readMessages returns the messages of a body, and reports whether it is a batch. It
// rejects what the SDK mishandles: text after the first value, equal ids of two requests,
// ids that it would round to 64 bits, and messages without a method.
func readMessages(body []byte) (messages []message, batch bool, err error) {
	texts, batch, err := splitBatch(body)
	if err != nil {
		return nil, batch, err
	}
	ids := map[string]bool{}
	for _, text := range texts {
		m, err := readMessage(text)
		var rejected rpcError
		if errors.As(err, &rejected) && batch {
			rejected.id = nil // the whole batch is rejected
			err = rejected
		}
		if err != nil {
			return nil, batch, err
		}
		if m.isRequest() {
			if ids[m.idKey] {
				return nil, batch, invalidRequest(nil, "two requests of the batch have the id %s", httpapi.Truncate(string(m.id)))
			}
			ids[m.idKey] = true
		}
		messages = append(messages, m)
	}
	return messages, batch, nil
}

// splitBatch returns the messages of the body: one, or those of a batch.
func splitBatch(body []byte) (texts []json.RawMessage, batch bool, err error) {
	text := bytes.TrimSpace(body)
	switch {
	case len(text) == 0:
		return nil, false, parseError("the body is empty: send a JSON-RPC message")
	case !json.Valid(text):
		return nil, false, parseError("the body must be exactly one JSON value")
	case text[0] != '[':
		return []json.RawMessage{text}, false, nil
	}
	if err := json.Unmarshal(text, &texts); err != nil {
		return nil, true, parseError("the body is malformed")
	}
	if len(texts) == 0 {
		return nil, true, invalidRequest(nil, "the batch is empty")
	}
	return texts, true, nil
}

// readMessage validates the envelope of a message.
func readMessage(text json.RawMessage) (message, error) {
	m := message{text: text}
	fields, err := fieldsOf(text)
	if err != nil {
		return m, err
	}
	id, named := fields["id"]
	if named && !bytes.Equal(id, null) { // some clients send null with a notification
		if m.idKey, err = canonicalID(id); err != nil {
			return m, err
		}
		m.id = id
	}
	var version string
	if json.Unmarshal(fields["jsonrpc"], &version) != nil || version != "2.0" {
		return m, invalidRequest(m.id, `jsonrpc must be "2.0"`)
	}
	method, calls := fields["method"]
	if !calls {
		return m, validateResponse(m, fields)
	}
	if json.Unmarshal(method, &m.method) != nil || m.method == "" {
		return m, invalidRequest(m.id, "method must be a string that is not empty")
	}
	m.params = fields["params"]
	if httpapi.HasLoneSurrogate(m.params) {
		return m, invalidRequest(m.id, "params has an escape of half a character, such as \\ud800 without the other half")
	}
	if err := httpapi.RejectDuplicateFields(m.params, httpapi.ExactCase); err != nil {
		return m, invalidRequest(m.id, "%s", fault.From(err).Public)
	}
	if m.id == nil && m.needsID(named) {
		return m, invalidRequest(nil, "the id of %s must be a string or an integer", httpapi.Truncate(m.method))
	}
	return m, nil
}

// isRequest reports whether the message is a request, which is always answered.
// Notifications and responses never are.
func (m message) isRequest() bool { return m.method != "" && m.id != nil }

// needsID reports whether a message without an id is a malformed request rather than a
// notification: a response to it could not be matched to a request, so it is not carried out, and
// its client must learn of that. named is set when the id is null.
func (m message) needsID(named bool) bool {
	_, request := paramsOf[m.method]
	return request || named && !strings.HasPrefix(m.method, notifications)
}

// notifications is the prefix that the protocol gives to its notifications.
const notifications = "notifications/"

// validateResponse validates a message without a method. The service sends no requests, so a
// response has no effect.
func validateResponse(m message, fields map[string]json.RawMessage) error {
	_, result := fields["result"]
	failure, failed := fields["error"]
	if m.id == nil || result == failed || failed && json.Unmarshal(failure, new(jsonrpc.Error)) != nil {
		return invalidRequest(m.id, "a message must have a method; names are written in lower case")
	}
	return nil
}

// fieldsOf returns the fields of a message. It rejects a duplicate field: readers differ in which
// of the two counts.
func fieldsOf(text json.RawMessage) (map[string]json.RawMessage, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	if begin, err := decoder.Token(); err != nil || begin != json.Delim('{') {
		return nil, invalidRequest(nil, "a message must be a JSON object")
	}
	fields := map[string]json.RawMessage{}
	for decoder.More() {
		token, err := decoder.Token()
		name, ok := token.(string)
		var value json.RawMessage
		if err == nil {
			err = decoder.Decode(&value)
		}
		if err != nil || !ok {
			return nil, parseError("the body is malformed")
		}
		if _, duplicate := fields[name]; duplicate {
			return nil, invalidRequest(nil, "duplicate field %q in the message", httpapi.Truncate(name))
		}
		fields[name] = value
	}
	return fields, nil
}

// integerPattern matches a number that can be returned unchanged. JavaScript, for one, has a
// single kind of number and may write 1.0.
var integerPattern = regexp.MustCompile(`^(-?[0-9]{1,16})(?:\.0+)?$`)

// maxID is the largest integer that every JSON parser represents exactly (RFC 8259, section 6).
const maxID = 1<<53 - 1

// canonicalID returns a string that is equal for equal ids. It rejects ids that could not be
// returned unchanged.
func canonicalID(id json.RawMessage) (string, error) {
	if id[0] == '"' {
		var text string
		// An invalid character, such as half of a surrogate pair, would be replaced.
		if json.Unmarshal(id, &text) != nil || strings.ContainsRune(text, utf8.RuneError) {
			return "", invalidRequest(nil, "the id must consist of valid characters")
		}
		return "text " + text, nil
	}
	if parts := integerPattern.FindSubmatch(id); parts != nil {
		if n, err := strconv.ParseInt(string(parts[1]), 10, 64); err == nil && n >= -maxID && n <= maxID {
			return "number " + strconv.FormatInt(n, 10), nil
		}
	}
	return "", invalidRequest(nil, "the id must be a string, or an integer from -%d to %d", maxID, maxID)
}

// paramsOf maps the supported methods to the types that the SDK decodes their parameters into. The
// SDK's own decode error would contain the names of the types.
var paramsOf = map[string]func() any{
	"initialize":      func() any { return new(sdk.InitializeParams) },
	"ping":            func() any { return new(sdk.PingParams) },
	"server/discover": func() any { return new(sdk.DiscoverParams) },
	"tools/call":      func() any { return new(sdk.CallToolParamsRaw) },
	"tools/list":      func() any { return new(sdk.ListToolsParams) },
}

// validateParams returns the error of a request whose method is not supported, or whose
// parameters are malformed. Their meaning is up to the SDK and the tools.
func (m message) validateParams() error {
	made, supported := paramsOf[m.method]
	if !supported {
		// The SDK knows more methods. The service has no prompts and no resources, and a
		// subscription that never ends would hold up a shutdown.
		err := fault.New(fault.Invalid, "method %q is not supported; the service has tools only", httpapi.Truncate(m.method))
		return rpcError{error: err, code: jsonrpc.CodeMethodNotFound, id: m.id}
	}
	if m.params == nil || bytes.Equal(m.params, null) {
		if m.method != "initialize" && m.method != "tools/call" {
			return nil
		}
		return m.invalidParams(fault.New(fault.Invalid, "%s needs params", m.method))
	}
	err := json.Unmarshal(m.params, made())
	if err == nil {
		return nil
	}
	var mismatch *json.UnmarshalTypeError
	if errors.As(err, &mismatch) && mismatch.Field != "" {
		return m.invalidParams(fault.Wrap(err, fault.Invalid, "%s of %s has the wrong type", mismatch.Field, m.method))
	}
	return m.invalidParams(fault.Wrap(err, fault.Invalid, "the params of %s must be an object", m.method))
}

func (m message) invalidParams(err error) error {
	return rpcError{error: err, code: jsonrpc.CodeInvalidParams, id: m.id}
}

func invalidRequest(id json.RawMessage, format string, args ...any) error {
	return rpcError{error: fault.New(fault.Invalid, format, args...), code: jsonrpc.CodeInvalidRequest, id: id}
}

func parseError(public string) error {
	return rpcError{error: fault.New(fault.Invalid, "%s", public), code: jsonrpc.CodeParseError}
}
