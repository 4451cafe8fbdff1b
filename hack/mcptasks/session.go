package mcptasks

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// session is a connection to /mcp for one task.
type session struct {
	client       *mcp.ClientSession
	tools        []Tool
	instructions string
	known        values
}

type keyed struct{ key string }

// RoundTrip sends the key.
func (k keyed) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("X-Service-Apikey", k.key)
	return http.DefaultTransport.RoundTrip(r)
}

// open prepares a task, and connects as an assistant does.
func (s Stack) open(ctx context.Context, task Task) (*session, error) {
	key, known, err := s.prepare(ctx, task)
	if err != nil {
		return nil, err
	}
	client, err := mcp.NewClient(&mcp.Implementation{Name: "mcptasks", Version: "1"}, nil).
		Connect(ctx, &mcp.StreamableClientTransport{Endpoint: s.BaseURL + "/mcp", DisableStandaloneSSE: true, HTTPClient: &http.Client{Transport: keyed{key}}}, nil)
	if err != nil {
		return nil, err
	}
	made := &session{client: client, known: known, instructions: client.InitializeResult().Instructions}
	list, err := client.ListTools(ctx, nil)
	if err != nil {
		made.close()
		return nil, err
	}
	for _, one := range list.Tools {
		text, err := json.Marshal(one)
		if err != nil {
			made.close()
			return nil, err
		}
		tool := Tool{Text: text}
		if err := json.Unmarshal(text, &tool); err != nil {
			made.close()
			return nil, err
		}
		made.tools = append(made.tools, tool)
	}
	return made, nil
}

func (s *session) close() { _ = s.client.Close() }

// call calls a tool, and returns what the model reads: text, and a picture or none.
func (s *session) call(ctx context.Context, tool string, arguments map[string]any) (made Made, text string, picture []byte, err error) {
	made = Made{Tool: tool, Arguments: maps.Clone(arguments)}
	result, err := s.client.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: arguments})
	if err != nil {
		if ctx.Err() != nil {
			return made, "", nil, err
		}
		made.Error = err.Error() // an unknown tool: the model may try another
		return made, made.Error, nil, nil
	}
	for _, block := range result.Content {
		switch content := block.(type) {
		case *mcp.TextContent:
			text += content.Text
		case *mcp.ImageContent:
			picture = content.Data
		}
	}
	if result.IsError {
		made.Error = text
		return made, text, nil, nil
	}
	if made.Result, err = json.Marshal(result.StructuredContent); err != nil {
		return made, "", nil, fmt.Errorf("the result of %s: %w", tool, err)
	}
	return made, text, picture, nil
}
