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
)

// message is one message of a body, as far as it is judged before the SDK reads it.
type message struct {
	text   json.RawMessage
	method string          // empty for an answer
	id     json.RawMessage // nil for a notification
	same   string          // equal for ids that are equal
	params json.RawMessage // nil when there are none
}

// invalid is a JSON-RPC error: of a body that holds no messages or can't be taken as it
// is, of which nothing is carried out, or of a single request.
type invalid struct {
	error                  // the fault
	code   int64           // JSON-RPC's
	id     json.RawMessage // nil when it is not known, or of no single message
	status int             // of the HTTP answer; 0 = by the kind of the fault
	data   any             // of the error object; nil = none
}

// Unwrap returns the fault.
func (i invalid) Unwrap() error { return i.error }

// readMessages returns the messages of a body, and reports whether it is a batch. It
// rejects what the SDK mishandles: text after the first value, equal ids of two requests,
// ids that it would round to 64 bits, and messages without a method.
func readMessages(body []byte) (messages []message, batch bool, err error) {
	texts, batch, err := split(body)
	if err != nil {
		return nil, batch, err
	}
	ids := map[string]bool{}
	for _, text := range texts {
		m, err := readMessage(text)
		var told invalid
		if errors.As(err, &told) && batch {
			told.id = nil // it is the whole batch that is refused
			err = told
		}
		if err != nil {
			return nil, batch, err
		}
		if m.isRequest() {
			if ids[m.same] {
				return nil, batch, refused(nil, "two calls of the batch have the id %s: none was made", shown(string(m.id)))
			}
			ids[m.same] = true
		}
		messages = append(messages, m)
	}
	return messages, batch, nil
}

// split takes the body apart: a message, or a batch of them.
func split(body []byte) (texts []json.RawMessage, batch bool, err error) {
	text := bytes.TrimSpace(body)
	switch {
	case len(text) == 0:
		return nil, false, notJSON("the body is empty: send a JSON-RPC message")
	case !json.Valid(text):
		return nil, false, notJSON("the body must be one JSON value, and nothing behind it")
	case text[0] != '[':
		return []json.RawMessage{text}, false, nil
	}
	if err := json.Unmarshal(text, &texts); err != nil {
		return nil, true, notJSON("the body can't be read")
	}
	if len(texts) == 0 {
		return nil, true, refused(nil, "the batch is empty")
	}
	return texts, true, nil
}

// readMessage judges the outside of a message.
func readMessage(text json.RawMessage) (message, error) {
	m := message{text: text}
	fields, err := fieldsOf(text)
	if err != nil {
		return m, err
	}
	id, named := fields["id"]
	if named && !bytes.Equal(id, null) { // some write null for a notification's
		if m.same, err = sameID(id); err != nil {
			return m, err
		}
		m.id = id
	}
	var version string
	if json.Unmarshal(fields["jsonrpc"], &version) != nil || version != "2.0" {
		return m, refused(m.id, `jsonrpc must be "2.0"`)
	}
	method, calls := fields["method"]
	if !calls {
		return m, answers(m, fields)
	}
	if json.Unmarshal(method, &m.method) != nil || m.method == "" {
		return m, refused(m.id, "method must be a string that is not empty")
	}
	m.params = fields["params"]
	if m.id == nil && m.needsID(named) {
		return m, refused(nil, "the id of %s must be a string or an integer", shown(m.method))
	}
	return m, nil
}

// isRequest reports whether the message is a request, which is always answered.
// Notifications and responses never are.
func (m message) isRequest() bool { return m.method != "" && m.id != nil }

// needsID reports whether a message without an id is a malformed request rather than a
// notification: a response could not be told from others, so it is not carried out, and
// its client must learn of that. named is set when the id is null.
func (m message) needsID(named bool) bool {
	_, request := paramsOf[m.method]
	return request || named && !strings.HasPrefix(m.method, notifications)
}

// notifications is the prefix that the protocol gives to its notifications.
const notifications = "notifications/"

// answers judges a message without a method. The service asks its clients nothing, so
// what they answer has no effect.
func answers(m message, fields map[string]json.RawMessage) error {
	_, result := fields["result"]
	failure, failed := fields["error"]
	if m.id == nil || result == failed || failed && json.Unmarshal(failure, new(jsonrpc.Error)) != nil {
		return refused(m.id, "a message must have a method; names are written in lower case")
	}
	return nil
}

// fieldsOf returns the fields of a message. A name that stands twice is refused: which of
// the two counts is for every reader to choose.
func fieldsOf(text json.RawMessage) (map[string]json.RawMessage, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	if begin, err := decoder.Token(); err != nil || begin != json.Delim('{') {
		return nil, refused(nil, "a message must be a JSON object")
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
			return nil, notJSON("the body can't be read")
		}
		if _, twice := fields[name]; twice {
			return nil, refused(nil, "the message has %q twice", shown(name))
		}
		fields[name] = value
	}
	return fields, nil
}

// wholeNumber is a number that can be given back as it came. Some languages know one
// kind of number only, and write 1.0.
var wholeNumber = regexp.MustCompile(`^(-?[0-9]{1,16})(?:\.0+)?$`)

// largestID is the largest integer that every reader of JSON keeps (RFC 8259, section 6).
const largestID = 1<<53 - 1

// sameID returns what is equal for ids that are. It refuses those that would come back
// changed.
func sameID(id json.RawMessage) (string, error) {
	if id[0] == '"' {
		var text string
		// What is no character, such as half of a surrogate pair, would come back as another one.
		if json.Unmarshal(id, &text) != nil || strings.ContainsRune(text, utf8.RuneError) {
			return "", refused(nil, "the id must be made of characters")
		}
		return "text " + text, nil
	}
	if parts := wholeNumber.FindSubmatch(id); parts != nil {
		if n, err := strconv.ParseInt(string(parts[1]), 10, 64); err == nil && n >= -largestID && n <= largestID {
			return "number " + strconv.FormatInt(n, 10), nil
		}
	}
	return "", refused(nil, "the id must be a string, or an integer from -%d to %d", largestID, largestID)
}

// paramsOf has the supported methods, with the types that the SDK reads their parameters
// into: its own error would contain the names of the types.
var paramsOf = map[string]func() any{
	"initialize":      func() any { return new(sdk.InitializeParams) },
	"ping":            func() any { return new(sdk.PingParams) },
	"server/discover": func() any { return new(sdk.DiscoverParams) },
	"tools/call":      func() any { return new(sdk.CallToolParamsRaw) },
	"tools/list":      func() any { return new(sdk.ListToolsParams) },
}

// check returns the error of a request whose method is not supported, or whose
// parameters can't be read. What they mean is for the SDK and the tools.
func (m message) check() error {
	made, supported := paramsOf[m.method]
	if !supported {
		// The SDK knows more methods. The service has no prompts and no resources, and a
		// subscription that never ends would hold up a shutdown.
		err := fault.New(fault.Invalid, "method %q is not supported; the service has tools only", shown(m.method))
		return invalid{error: err, code: jsonrpc.CodeMethodNotFound, id: m.id}
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
	return m.invalidParams(fault.Wrap(err, fault.Invalid, "the params of %s can't be read: they must be an object", m.method))
}

func (m message) invalidParams(err error) error {
	return invalid{error: err, code: jsonrpc.CodeInvalidParams, id: m.id}
}

func refused(id json.RawMessage, format string, args ...any) error {
	return invalid{error: fault.New(fault.Invalid, format, args...), code: jsonrpc.CodeInvalidRequest, id: id}
}

func notJSON(public string) error {
	return invalid{error: fault.New(fault.Invalid, "%s", public), code: jsonrpc.CodeParseError}
}
