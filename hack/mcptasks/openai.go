package mcptasks

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// Endpoint is where a model is reached.
type Endpoint struct {
	// URL is that of the API, without the path of a method: https://api.example.com/v1.
	URL, Key, Model string
	Client          *http.Client
}

// maxTokens is how much a model may answer at once.
const maxTokens = 4096

// maxAnswer bounds the bytes of an answer of the API.
const maxAnswer = 8 << 20

// post sends a request to the API. The key is in a header, and in no error.
func (e Endpoint) post(ctx context.Context, path string, header http.Header, body, into any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, e.URL+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	request.Header = header
	request.Header.Set("Content-Type", "application/json")
	response, err := e.Client.Do(request)
	if err != nil {
		return err
	}
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err = errors.Join(err, response.Body.Close()); err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("the model: %d %s", response.StatusCode, answer)
	}
	return json.Unmarshal(answer, into)
}

// OpenAI is a model with the API for chat completions, as many servers have it.
type OpenAI struct{ Endpoint }

type openAICall struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

type openAIMessage struct {
	Role       string       `json:"role"`
	Content    any          `json:"content"`
	ToolCalls  []openAICall `json:"tool_calls,omitempty"`
	ToolCallID string       `json:"tool_call_id,omitempty"`
}

type object = map[string]any

// Next implements Model.
func (m OpenAI) Next(ctx context.Context, conversation Conversation) (Message, error) {
	messages := []openAIMessage{{Role: "system", Content: conversation.Instructions}}
	var pictures []openAIMessage // they follow the results of all calls of a message
	for _, message := range conversation.Messages {
		if message.Role != RoleTool {
			messages, pictures = append(messages, pictures...), nil
		}
		switch message.Role {
		case RoleUser:
			messages = append(messages, openAIMessage{Role: "user", Content: message.Text})
		case RoleModel:
			made := openAIMessage{Role: "assistant", Content: message.Text}
			for _, wanted := range message.Calls {
				arguments, err := json.Marshal(wanted.Arguments)
				if err != nil {
					return Message{}, err
				}
				call := openAICall{ID: wanted.ID, Type: "function"}
				call.Function.Name, call.Function.Arguments = wanted.Tool, string(arguments)
				made.ToolCalls = append(made.ToolCalls, call)
			}
			messages = append(messages, made)
		case RoleTool:
			messages = append(messages, openAIMessage{Role: "tool", Content: message.Text, ToolCallID: message.CallID})
			if message.Picture != nil {
				pictures = append(pictures, openAIMessage{Role: "user", Content: []object{{"type": "image_url",
					"image_url": object{"url": "data:image/jpeg;base64," + base64.StdEncoding.EncodeToString(message.Picture)}}}})
			}
		}
	}
	messages = append(messages, pictures...)
	tools := make([]object, 0, len(conversation.Tools))
	for _, tool := range conversation.Tools {
		tools = append(tools, object{"type": "function", "function": object{"name": tool.Name, "description": tool.Description, "parameters": tool.InputSchema}})
	}
	var answer struct {
		Choices []struct {
			Message struct {
				Content   string       `json:"content"`
				ToolCalls []openAICall `json:"tool_calls"`
			} `json:"message"`
		} `json:"choices"`
	}
	if err := m.post(ctx, "/chat/completions", http.Header{"Authorization": {"Bearer " + m.Key}},
		object{"model": m.Model, "messages": messages, "tools": tools, "max_tokens": maxTokens}, &answer); err != nil {
		return Message{}, err
	}
	if len(answer.Choices) == 0 {
		return Message{}, errors.New("the model has answered nothing")
	}
	said := answer.Choices[0].Message
	next := Message{Text: said.Content}
	for _, call := range said.ToolCalls {
		wanted := Wanted{ID: call.ID, Tool: call.Function.Name}
		if call.Function.Arguments != "" {
			if err := json.Unmarshal([]byte(call.Function.Arguments), &wanted.Arguments); err != nil {
				return Message{}, fmt.Errorf("the arguments of %s: %w", wanted.Tool, err)
			}
		}
		next.Calls = append(next.Calls, wanted)
	}
	return next, nil
}
