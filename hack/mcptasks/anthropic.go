package mcptasks

import (
	"context"
	"encoding/base64"
	"net/http"
)

// Anthropic is a model with the API for messages of Anthropic.
type Anthropic struct{ Endpoint }

// anthropicVersion is the version of the API.
const anthropicVersion = "2023-06-01"

// Next implements Model.
func (m Anthropic) Next(ctx context.Context, conversation Conversation) (Message, error) {
	var messages []object
	add := func(role string, blocks ...object) {
		if len(blocks) == 0 {
			return
		}
		if n := len(messages); n > 0 && messages[n-1]["role"] == role { // the results of all calls of a message are in one
			messages[n-1]["content"] = append(messages[n-1]["content"].([]object), blocks...)
			return
		}
		messages = append(messages, object{"role": role, "content": blocks})
	}
	for _, message := range conversation.Messages {
		switch message.Role {
		case RoleUser:
			add("user", object{"type": "text", "text": message.Text})
		case RoleModel:
			var blocks []object
			if message.Text != "" {
				blocks = append(blocks, object{"type": "text", "text": message.Text})
			}
			for _, wanted := range message.Calls {
				arguments := wanted.Arguments
				if arguments == nil {
					arguments = object{}
				}
				blocks = append(blocks, object{"type": "tool_use", "id": wanted.ID, "name": wanted.Tool, "input": arguments})
			}
			add("assistant", blocks...)
		case RoleTool:
			content := []object{{"type": "text", "text": message.Text}}
			if message.Picture != nil {
				content = append(content, object{"type": "image", "source": object{"type": "base64", "media_type": "image/jpeg", "data": base64.StdEncoding.EncodeToString(message.Picture)}})
			}
			add("user", object{"type": "tool_result", "tool_use_id": message.CallID, "is_error": message.Failed, "content": content})
		}
	}
	tools := make([]object, 0, len(conversation.Tools))
	for _, tool := range conversation.Tools {
		tools = append(tools, object{"name": tool.Name, "description": tool.Description, "input_schema": tool.InputSchema})
	}
	var answer struct {
		Content []struct {
			Type  string         `json:"type"`
			Text  string         `json:"text"`
			ID    string         `json:"id"`
			Name  string         `json:"name"`
			Input map[string]any `json:"input"`
		} `json:"content"`
	}
	header := http.Header{"X-Api-Key": {m.Key}, "Anthropic-Version": {anthropicVersion}}
	if err := m.post(ctx, "/messages", header, object{"model": m.Model, "max_tokens": maxTokens, "system": conversation.Instructions, "messages": messages, "tools": tools}, &answer); err != nil {
		return Message{}, err
	}
	var next Message
	for _, block := range answer.Content {
		switch block.Type {
		case "text":
			next.Text += block.Text
		case "tool_use":
			next.Calls = append(next.Calls, Wanted{ID: block.ID, Tool: block.Name, Arguments: block.Input})
		}
	}
	return next, nil
}

var (
	_ Model = OpenAI{}
	_ Model = Anthropic{}
)
