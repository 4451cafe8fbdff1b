package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mediastack.dev/runtime/media"
)

// emptyTool is the name of that tool.
const emptyTool = "nothing"

// mountBareSDK is the SDK with one tool that does nothing.
func mountBareSDK(_ context.Context, mux *http.ServeMux) error {
	server := mcp.NewServer(&mcp.Implementation{Name: "bare", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: emptyTool}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{}, nil, nil
	})
	mux.Handle("/mcp", mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true}))
	return nil
}

// tools compares calls of get_media with the SDK around an empty tool, and reads the
// runtime's peak with many large files in calls at once.
func tools(ctx context.Context, b *bench) error {
	t, err := b.rig.tenant(ctx, "tools")
	if err != nil {
		return err
	}
	ids, err := b.rig.seed(ctx, t, seed{items: 1000, access: func(int) media.Access { return media.Public }})
	if err != nil {
		return err
	}
	if err := b.rig.settle(ctx); err != nil {
		return err
	}
	e, err := b.rig.serve(ctx, service, t, nil)
	if err != nil {
		return err
	}
	direct, err := b.rig.start(ctx, bareSDK, nil)
	if err != nil {
		return err
	}
	names := b.rig.columns(client, service, bareSDK, postgres)
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
	rounds, err := b.turns(ctx, "get_media", load{clients: b.Clients, rounds: b.Rounds, length: b.Length}, sides...)
	if err != nil {
		return err
	}
	called, empty := rates(rounds[0]), rates(rounds[1])
	found := b.add(result{Benchmark: b.name, Case: "get_media", Figure: "ratio of calls/s", Aim: atLeast(0.6),
		Behind: map[string]float64{"servicePerSecond": median(called), "barePerSecond": median(empty)}}, ratios(called, empty)...)
	speed := table{{"tool", "service/s", "bare SDK/s", "ratio", "min", "max", "aim", ""}}
	speed.row(append([]string{"get_media", number(median(called)), number(median(empty))}, found.cells()...)...)
	speed.print(b.out, 1)
	b.note("")
	work := table{append([]string{"CPU ms per call", "side"}, append(names, "all")...)}
	for i, s := range sides {
		work.row(append([]string{"get_media", s.name}, b.workCells(rounds[i], names)...)...)
	}
	work.print(b.out, 2)
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

// toolMemory sends the largest files that upload_media takes to a fresh runtime, a few
// times over, and reads its peak.
func (b *bench) toolMemory(ctx context.Context, t tenant) error {
	e, err := b.rig.serve(ctx, service, t, nil)
	if err != nil {
		return err
	}
	idle, _ := memoryOf(e.PID(), "VmRSS")
	file := make([]byte, toolFileBytes)
	if _, err := rand.Read(file); err != nil {
		return err
	}
	arguments := map[string]any{"fileBase64": base64.StdEncoding.EncodeToString(file), "fileName": "bench.bin", "mimeType": "application/octet-stream"}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	started := time.Now()
	for range b.Rounds {
		var all sync.WaitGroup
		for range toolFiles {
			all.Go(func() {
				if err := b.sendFile(ctx, t, e, arguments); err != nil {
					cancel(err)
				}
			})
		}
		all.Wait()
		if err := context.Cause(ctx); err != nil {
			return err
		}
	}
	took := time.Since(started)
	peak, ok := memoryOf(e.PID(), "VmHWM")
	if !ok {
		return fmt.Errorf("the kernel does not say how much memory the runtime had")
	}
	what := fmt.Sprintf("upload_media, %d of %s", toolFiles, sizeName(toolFileBytes))
	found := b.add(result{Benchmark: b.name, Case: what, Figure: "MiB, peak", Aim: below(400), Behind: map[string]float64{"idle": idle}}, peak)
	b.note("")
	sizes := table{{"resident memory of the runtime, MiB", "idle", "peak", "aim", ""}}
	sizes.row(what, number(idle), number(found.Value), found.Aim.String(), found.verdict())
	sizes.print(b.out, 1)
	b.note("%d files in %s, %d at once; the peak is the kernel's VmHWM", b.Rounds*toolFiles, took.Round(time.Second/10), toolFiles)
	return nil
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
	stored, err := b.rig.bare.StatObject(ctx, t.account.Bucket, original(draft.MediaID), minio.StatObjectOptions{})
	if err == nil && stored.Size != toolFileBytes {
		err = fmt.Errorf("of %d bytes the object has %d", toolFileBytes, stored.Size)
	}
	return err
}

// callTool calls a tool in the newest revision's form, and gives its structured result.
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
	response, err := e.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
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
		return nil, fmt.Errorf("%s was answered %s: %.300s", name, response.Status, answer)
	}
	return message.Result.StructuredContent, nil
}
