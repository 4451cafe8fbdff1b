package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"

	"mediastack.dev/runtime/media"
)

// tools compares calls of get_media with the SDK around an empty tool, and reads the
// runtime's peak with many large files in calls at once.
func tools(ctx context.Context, b *bench) error {
	t, err := b.env.tenant(ctx, "tools")
	if err != nil {
		return err
	}
	ids, err := b.env.seed(ctx, t, seed{items: 1000, access: func(int) media.Access { return media.Public }})
	if err != nil {
		return err
	}
	if err := b.env.vacuum(ctx); err != nil {
		return err
	}
	e, err := b.env.serve(ctx, service, t)
	if err != nil {
		return err
	}
	direct, err := b.env.serveBaseline(ctx, bareSDK)
	if err != nil {
		return err
	}
	c := b.compare("call", "ratio of calls/s", []string{"tool", "service/s", "bare SDK/s"}, client, service, bareSDK, postgres)
	sides := []side{
		{name: "service", call: func(ctx context.Context, n int64) error {
			_, err := e.callTool(ctx, "get_media", map[string]any{"mediaId": ids[int(n)%len(ids)]})
			return err
		}},
		{name: bareSDK, call: func(ctx context.Context, _ int64) error {
			_, err := direct.callTool(ctx, emptyTool, map[string]any{})
			return err
		}},
	}
	if err := c.measure(ctx, "get_media", load{clients: b.Clients, rounds: b.Rounds, length: b.Length}, sides,
		pair{against: 1, target: minimum(0.6), name: "get_media", cells: []string{"get_media"}}); err != nil {
		return err
	}
	c.print()
	b.note("%d clients; the bare SDK has one tool that does nothing, and neither a database nor a key", b.Clients)
	e.Stop()
	direct.Stop()
	return b.toolMemory(ctx, t)
}

// Files that are sent in calls at once.
const (
	toolFiles     = 8
	toolFileBytes = 10 << 20
)

// toolMemory sends the largest files that upload_media takes, a few times over, and measures memory.
func (b *bench) toolMemory(ctx context.Context, t tenant) error {
	arguments := map[string]any{"fileBase64": base64.StdEncoding.EncodeToString(randomBytes(toolFileBytes)), "fileName": "bench.bin", "mimeType": "application/octet-stream"}
	b.note("")
	return b.measureMemory(ctx, t, fmt.Sprintf("upload_media, %d of %s", toolFiles, sizeName(toolFileBytes)), 400, nil, func(ctx context.Context, e *endpoint) error {
		for range b.Rounds {
			if err := atOnce(ctx, toolFiles, func(ctx context.Context) error { return b.sendFile(ctx, t, e, arguments) }); err != nil {
				return err
			}
		}
		return nil
	})
}

func (b *bench) sendFile(ctx context.Context, t tenant, e *endpoint, arguments map[string]any) error {
	answer, err := e.callTool(ctx, "upload_media", arguments)
	if err != nil {
		return err
	}
	draft, err := decode(answer)
	if err != nil {
		return err
	}
	return b.checkSize(ctx, t, original(draft.MediaID), toolFileBytes)
}

// callTool calls a tool in the newest revision's form, and returns its structured result.
func (e *endpoint) callTool(ctx context.Context, name string, arguments map[string]any) ([]byte, error) {
	const revision = "2026-07-28"
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": map[string]any{
		"name": name, "arguments": arguments,
		"_meta": map[string]any{"io.modelcontextprotocol/protocolVersion": revision, "io.modelcontextprotocol/clientCapabilities": map[string]any{}},
	}})
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, e.baseURL+"/mcp", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	for header, value := range map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"MCP-Protocol-Version": revision, "Mcp-Method": "tools/call", "Mcp-Name": name, "x-service-apikey": e.key} {
		request.Header.Set(header, value)
	}
	answer, err := e.send(request, http.StatusOK)
	if err != nil {
		return nil, err
	}
	var message struct {
		Result *struct {
			IsError           bool
			StructuredContent json.RawMessage
		}
	}
	if err := json.Unmarshal(answer, &message); err != nil || message.Result == nil || message.Result.IsError {
		return nil, fmt.Errorf("%s was answered %.300s", name, answer)
	}
	return message.Result.StructuredContent, nil
}
