package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
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

// invalid is a body that holds no messages, or one that can't be taken as it is. None
// of it is carried out.
type invalid struct {
	error                 // the fault
	code  int             // JSON-RPC's
	id    json.RawMessage // nil when it is not known, or of no single message
}

// Unwrap gives the fault.
func (i invalid) Unwrap() error { return i.error }

// readMessages judges what the SDK takes in a wrong way: it would pass over what follows
// the first value, answer one of two calls that have the same id, give ids back that were
// rounded to 64 bits, take what has no method for an answer, and tell names of its types.
// It gives the body as the SDK is to see it.
func readMessages(body []byte) (rest []byte, messages []message, err error) {
	texts, batch, err := split(body)
	if err != nil {
		return nil, nil, err
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
			return nil, nil, err
		}
		if m.method != "" && m.id != nil {
			if ids[m.same] {
				return nil, nil, refused(nil, "two calls of the batch have the id %s: none was made", shown(string(m.id)))
			}
			ids[m.same] = true
		}
		messages = append(messages, m)
	}
	if batch && len(ids) > 0 {
		return withoutCancellations(messages), messages, nil
	}
	return body, messages, nil
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
	return m, m.fits()
}

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

// fieldsOf gives the fields of a message. A name that stands twice is refused: which of
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

// sameID gives what is equal for ids that are. It refuses those that would come back
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

// paramsOf are the types that the SDK reads parameters into. Whatever does not fit them
// it would tell by their names.
var paramsOf = map[string]func() any{
	"completion/complete":      func() any { return new(sdk.CompleteParams) },
	"initialize":               func() any { return new(sdk.InitializeParams) },
	"logging/setLevel":         func() any { return new(levelParams) },
	"ping":                     func() any { return new(sdk.PingParams) },
	"prompts/get":              func() any { return new(sdk.GetPromptParams) },
	"prompts/list":             func() any { return new(sdk.ListPromptsParams) },
	"resources/list":           func() any { return new(sdk.ListResourcesParams) },
	"resources/read":           func() any { return new(sdk.ReadResourceParams) },
	"resources/subscribe":      func() any { return new(sdk.SubscribeParams) },
	"resources/templates/list": func() any { return new(sdk.ListResourceTemplatesParams) },
	"resources/unsubscribe":    func() any { return new(sdk.UnsubscribeParams) },
	"server/discover":          func() any { return new(sdk.DiscoverParams) },
	"subscriptions/listen":     func() any { return new(sdk.SubscriptionsListenParams) },
	"tools/call":               func() any { return new(sdk.CallToolParamsRaw) },
	"tools/list":               func() any { return new(sdk.ListToolsParams) },
}

// levelParams has the place of a type of the SDK's that is deprecated.
type levelParams struct {
	Meta  sdk.Meta `json:"_meta"`
	Level string   `json:"level"`
}

// fits judges the parameters of a call. What they mean is for the SDK and the tools.
func (m message) fits() error {
	made, known := paramsOf[m.method]
	if !known || m.params == nil {
		return nil
	}
	err := json.Unmarshal(m.params, made())
	if err == nil {
		return nil
	}
	var mismatch *json.UnmarshalTypeError
	if errors.As(err, &mismatch) && mismatch.Field != "" {
		err = fault.Wrap(err, fault.Invalid, "%s of %s has the wrong type", mismatch.Field, m.method)
	} else {
		err = fault.Wrap(err, fault.Invalid, "the params of %s can't be read: they must be an object", m.method)
	}
	return invalid{error: err, code: jsonrpc.CodeInvalidParams, id: m.id}
}

const cancellation = "notifications/cancelled"

// withoutCancellations is a batch without them. They can only concern its other messages,
// as nothing else is left of a client here, and those are answered with the batch or not
// at all: there is nothing to be gained, and the SDK would answer in its own words.
func withoutCancellations(messages []message) []byte {
	var out bytes.Buffer
	for _, m := range messages {
		if m.method == cancellation && m.id == nil {
			continue
		}
		separator := byte(',')
		if out.Len() == 0 {
			separator = '['
		}
		out.WriteByte(separator)
		out.Write(m.text)
	}
	out.WriteByte(']')
	return out.Bytes()
}

func refused(id json.RawMessage, format string, args ...any) error {
	return invalid{error: fault.New(fault.Invalid, format, args...), code: jsonrpc.CodeInvalidRequest, id: id}
}

func notJSON(public string) error {
	return invalid{error: fault.New(fault.Invalid, "%s", public), code: jsonrpc.CodeParseError}
}

func bodyOf(rest []byte) io.ReadCloser { return io.NopCloser(bytes.NewReader(rest)) }
