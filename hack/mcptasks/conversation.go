package mcptasks

import (
	"context"
	"errors"
	"fmt"
)

// Wanted is a call that a model wants.
type Wanted struct {
	ID        string // by which the model knows the result
	Tool      string
	Arguments map[string]any
}

// Message is a part of a conversation.
type Message struct {
	Role string // user, model or tool
	Text string
	// Calls are those that the model wants.
	Calls []Wanted
	// CallID is the call whose result a message of the role tool has. Picture is a JPEG that belongs to it, Failed is set for an error.
	CallID  string
	Picture []byte
	Failed  bool
}

// The roles of messages.
const (
	RoleUser  = "user"
	RoleModel = "model"
	RoleTool  = "tool"
)

// Conversation is what a model reads.
type Conversation struct {
	Instructions string
	Tools        []Tool
	Messages     []Message
}

// Model continues a conversation: with calls, or with an answer to the user.
type Model interface {
	Next(ctx context.Context, conversation Conversation) (Message, error)
}

// maxSteps is how many messages a model may send for a task.
const maxSteps = 25

// Run has a model do a task in an account of its own, and returns what it did.
func (s Stack) Run(ctx context.Context, task Task, model Model) (Transcript, error) {
	session, err := s.open(ctx, task)
	if err != nil {
		return Transcript{Task: task.Name}, err
	}
	defer session.close()
	return session.run(ctx, task, model)
}

// run has a model do the task of a session.
func (s *session) run(ctx context.Context, task Task, model Model) (Transcript, error) {
	transcript := Transcript{Task: task.Name, Known: s.known}
	says, err := s.known.expand(task.Task)
	if err != nil {
		return transcript, err
	}
	conversation := Conversation{Instructions: s.instructions, Tools: s.tools, Messages: []Message{{Role: RoleUser, Text: says.(string)}}}
	steps := 0
	// answer runs the model until it answers.
	answer := func(second bool) error {
		for ; steps < maxSteps; steps++ {
			message, err := model.Next(ctx, conversation)
			if err != nil {
				return err
			}
			message.Role = RoleModel
			conversation.Messages = append(conversation.Messages, message)
			if len(message.Calls) == 0 {
				transcript.Answers = append(transcript.Answers, message.Text)
				return nil
			}
			for _, wanted := range message.Calls {
				made, text, picture, err := s.call(ctx, wanted.Tool, wanted.Arguments)
				if err != nil {
					return err
				}
				made.Second = second
				transcript.Calls = append(transcript.Calls, made)
				conversation.Messages = append(conversation.Messages, Message{Role: RoleTool, CallID: wanted.ID, Text: text, Picture: picture, Failed: made.Error != ""})
			}
		}
		return errNoEnd
	}
	if err := answer(false); err != nil || task.Then == nil {
		return transcript, ended(err)
	}
	if task.Then.Upload != "" {
		address, ok := savedOf(task, transcript, task.Then.Upload)
		if !ok {
			return transcript, nil // it has not asked for a file: the score says so
		}
		if err := upload(ctx, address); err != nil {
			return transcript, fmt.Errorf("the user uploads a file: %w", err)
		}
	}
	conversation.Messages = append(conversation.Messages, Message{Role: RoleUser, Text: task.Then.Says})
	return transcript, ended(answer(true))
}

// errNoEnd is the error of a model that does not come to an end. Its transcript is scored.
var errNoEnd = errors.New("the model does not end")

func ended(err error) error {
	if errors.Is(err, errNoEnd) {
		return nil
	}
	return err
}

// savedOf returns a value that an expected call saves, from the calls that were made.
func savedOf(task Task, transcript Transcript, name string) (string, bool) {
	for _, sequence := range task.Sequences() {
		for _, call := range sequence {
			path, ok := call.Save[name]
			if !ok {
				continue
			}
			for _, made := range transcript.Calls {
				if made.Tool == call.Tool && made.Error == "" {
					if value, ok := at(made.Result, path); ok {
						return fmt.Sprint(value), true
					}
				}
			}
		}
	}
	return "", false
}
