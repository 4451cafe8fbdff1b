package mcptasks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
)

// scripted makes the calls that a task expects, and checks what they return.
type scripted struct {
	calls  []Call
	answer string
	known  values
	// before runs before a call.
	before func(call Call, arguments map[string]any)

	made, said int
	waits      bool // for the result of the last call
}

// Next implements Model.
func (m *scripted) Next(_ context.Context, conversation Conversation) (Message, error) {
	if m.waits {
		m.waits = false
		if err := m.read(m.calls[m.made-1], conversation.Messages[len(conversation.Messages)-1]); err != nil {
			return Message{}, err
		}
	}
	if m.made < len(m.calls) && m.calls[m.made].Second == (m.said > 0) {
		call := m.calls[m.made]
		arguments, err := call.concrete(m.known)
		if err != nil {
			return Message{}, err
		}
		if m.before != nil {
			m.before(call, arguments)
		}
		m.made, m.waits = m.made+1, true
		return Message{Calls: []Wanted{{ID: fmt.Sprint(m.made), Tool: call.Tool, Arguments: arguments}}}, nil
	}
	m.said++
	text, err := m.known.expand(m.answer)
	if err != nil && m.made < len(m.calls) {
		return Message{Text: "Shall I go on?"}, nil // the answer has what a later call returns
	}
	if err != nil {
		return Message{}, err
	}
	return Message{Text: text.(string)}, nil
}

// read checks the result of a call, and saves what later calls need.
func (m *scripted) read(call Call, result Message) (err error) {
	if result.Role != RoleTool {
		return errors.New("the last message is no result")
	}
	if call.Fails != "" {
		if !result.Failed || !strings.Contains(result.Text, call.Fails) {
			return fmt.Errorf("%s should fail with %q, but returns %s", call.Tool, call.Fails, result.Text)
		}
		return nil
	}
	if result.Failed {
		return fmt.Errorf("%s fails: %s", call.Tool, result.Text)
	}
	for path, want := range call.Returns {
		// A member of metadata may have a point in its name, but none of the tasks has.
		if got, _ := at(json.RawMessage(result.Text), path); !reflect.DeepEqual(plain(want), got) {
			return fmt.Errorf("%s returns %v as %s, want %v: %s", call.Tool, got, path, want, result.Text)
		}
	}
	m.known, err = m.known.save(call, json.RawMessage(result.Text), false)
	return err
}
