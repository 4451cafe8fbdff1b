package mcptasks

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
)

// planOf returns the right transcript of a task that is not carried out: values of earlier calls are references.
func planOf(t *testing.T, task Task, calls []Call) Transcript {
	t.Helper()
	known := plannedKnown(task)
	transcript := Transcript{Task: task.Name, Plan: true, Known: maps.Clone(known)}
	for n, call := range calls {
		arguments, err := call.concrete(known)
		must(t, err)
		transcript.Calls = append(transcript.Calls, Made{Tool: call.Tool, Arguments: plain(arguments).(map[string]any), Second: call.Second})
		for name, path := range call.Save {
			known[name] = fmt.Sprintf("$%d.%s", n+1, path)
		}
	}
	answer, err := known.expand(task.Answer.Example)
	must(t, err)
	transcript.Answers = []string{answer.(string)}
	return transcript
}

func allTasks(t *testing.T) []Task {
	t.Helper()
	tasks, err := Tasks()
	must(t, err)
	if len(tasks) < 40 {
		t.Fatalf("there are %d tasks", len(tasks))
	}
	return tasks
}

// A right transcript is right, and each thing that is changed in it makes it wrong.
func TestScore_TellsRightFromWrong(t *testing.T) {
	t.Parallel()
	reads, err := Reads()
	must(t, err)
	for _, task := range allTasks(t) {
		calls := orders(task.Calls)[0]
		right := planOf(t, task, calls)
		if score := ScoreOf(task, right, reads); !score.Right() {
			t.Errorf("%s: a right transcript is scored as wrong: %s", task.Name, score.Wrong)
		}
		wrong := func(what string, change func(*Transcript)) {
			t.Helper()
			changed := right
			changed.Calls, changed.Answers = slices.Clone(right.Calls), slices.Clone(right.Answers)
			change(&changed)
			if ScoreOf(task, changed, reads).Right() {
				t.Errorf("%s: right though %s", task.Name, what)
			}
		}
		wrong("it says nothing", func(c *Transcript) { c.Answers = []string{" "} })
		wrong("it deletes something else", func(c *Transcript) {
			c.Calls = append(c.Calls, Made{Tool: "delete_media", Arguments: map[string]any{"mediaId": "other"}})
		})
		if len(task.Answer.Says) > 0 && !slices.ContainsFunc(task.Answer.Says, variable.MatchString) {
			wrong("it says something else", func(c *Transcript) { c.Answers = []string{"zzz"} })
		}
		if task.Answer.Asks {
			wrong("it does not ask", func(c *Transcript) { c.Answers = []string{"It waits."} })
		}
		wrong("it reads too much", func(c *Transcript) {
			for range maxReads + 1 {
				c.Calls = append(c.Calls, Made{Tool: "get_media_count"})
			}
		})
		for i, call := range calls {
			wrong("the call "+call.Tool+" is left out", func(c *Transcript) { c.Calls = slices.Delete(c.Calls, i, i+1) })
			wrong("the call "+call.Tool+" has another tool", func(c *Transcript) { c.Calls[i].Tool = "create_upload_signature_2" })
			for name := range call.Arguments {
				wrong(call.Tool+" has another "+name, func(c *Transcript) {
					c.Calls[i].Arguments = maps.Clone(c.Calls[i].Arguments)
					c.Calls[i].Arguments[name] = "zzz"
				})
			}
			if task.Then != nil && call.Second {
				wrong(call.Tool+" is called before the user has answered", func(c *Transcript) { c.Calls[i].Second = false })
			}
		}
	}
}

// Carried out, a call has the id that another call has returned, and not one that the model has made up.
func TestScore_HoldsIDsAgainstResults(t *testing.T) {
	t.Parallel()
	tasks, err := ReadTasks([]byte(`
- {name: a, task: t, answer: {says: ["${id}"], example: x}, calls: [{tool: upload_media, save: {id: mediaId}}, {tool: seal_media, arguments: {mediaId: "${id}"}}]}
`))
	must(t, err)
	reads := func(string) bool { return false }
	of := func(id, answer, failed string) Score {
		return ScoreOf(tasks[0], Transcript{Answers: []string{answer}, Calls: []Made{
			{Tool: "upload_media", Error: failed, Result: json.RawMessage(`{"mediaId": "1.2"}`)}, {Tool: "seal_media", Arguments: map[string]any{"mediaId": id}}}}, reads)
	}
	if score := of("1.2", "it is 1.2", ""); !score.Right() || score.Calls != 2 || score.Expected != 2 {
		t.Errorf("right: %+v", score)
	}
	for what, score := range map[string]Score{"another id": of("1.3", "1.2", ""), "another answer": of("1.2", "1x2", ""), "a reference": of("$1.mediaId", "1.2", ""), "a call that failed": of("1.2", "1.2", "no")} {
		if score.Right() {
			t.Errorf("right though it has %s", what)
		}
	}
}

// Expected calls fit the schemas of the tools, and use only those that the account of the task has.
func TestTasks_CallsFitTheSchemas(t *testing.T) {
	t.Parallel()
	used := map[string]bool{}
	for _, task := range allTasks(t) {
		tools, _, err := toolsOf(task)
		must(t, err)
		for _, set := range task.Toolsets {
			used[set] = true
		}
		for _, calls := range append([][]Call{task.Calls}, task.Alternatives...) {
			for i, made := range planOf(t, task, orders(calls)[0]).Calls {
				used[made.Tool] = true
				tool, ok := Find(tools, made.Tool)
				if !ok {
					t.Errorf("%s: the account does not have %s", task.Name, made.Tool)
					continue
				}
				var schema jsonschema.Schema
				must(t, json.Unmarshal(tool.InputSchema, &schema))
				resolved, err := schema.Resolve(nil)
				must(t, err)
				if err := resolved.Validate(made.Arguments); err != nil {
					t.Errorf("%s: the call %d, %s %v: %v", task.Name, i+1, made.Tool, made.Arguments, err)
				}
			}
		}
	}
	sets, err := Toolsets()
	must(t, err)
	for _, set := range sets {
		if set.Name != "core" && set.Name != "approval" && set.Name != "all" && !used[set.Name] {
			t.Errorf("no task has the toolset %s", set.Name)
		}
		for _, tool := range set.Tools {
			if !used[tool.Name] {
				used[tool.Name] = true
				t.Errorf("no task calls %s", tool.Name)
			}
		}
	}
}

// Who has no API gives a prompt to a model, and has its reply scored.
func TestPrompt_IsAnsweredByAPlan(t *testing.T) {
	t.Parallel()
	reads, err := Reads()
	must(t, err)
	for _, task := range allTasks(t) {
		prompt, err := Prompt(task)
		must(t, err)
		says, _ := plannedKnown(task).expand(task.Task)
		if !strings.Contains(prompt, says.(string)) || strings.Contains(prompt, "${") {
			t.Errorf("%s: the prompt is %s", task.Name, prompt)
		}
		right := planOf(t, task, orders(task.Calls)[0])
		reply, err := json.Marshal(map[string]any{"calls": right.Calls, "answer": right.Answers[0]})
		must(t, err)
		read, err := ReadReply(task, "Here it is:\n```json\n"+string(reply)+"\n```")
		must(t, err)
		if score := ScoreOf(task, read, reads); !score.Right() {
			t.Errorf("%s: %s", task.Name, score.Wrong)
		}
	}
	for _, reply := range []string{"", "I cannot", "{broken}"} {
		if _, err := ReadReply(allTasks(t)[0], reply); err == nil {
			t.Errorf("%q is read as a reply", reply)
		}
	}
}

// The requests to the APIs have the tools, the results of calls and pictures; calls and texts of their answers are read.
func TestModels_SpeakTheirAPI(t *testing.T) {
	t.Parallel()
	conversation := Conversation{Instructions: "Stores media.", Tools: []Tool{{Name: "view_media", Description: "Shows.", InputSchema: json.RawMessage(`{"type":"object"}`)}}, Messages: []Message{
		{Role: RoleUser, Text: "What is it?"}, {Role: RoleModel, Calls: []Wanted{{ID: "c1", Tool: "view_media", Arguments: map[string]any{"mediaId": "7"}}}}, {Role: RoleTool, CallID: "c1", Text: "facts", Picture: []byte("jpeg")}}}
	for _, api := range []struct {
		name, path, header, answer string
		of                         func(Endpoint) Model
		sent                       []string
	}{
		{"openai", "/v1/chat/completions", "Authorization", `{"choices":[{"message":{"content":"Look","tool_calls":[{"id":"c2","type":"function","function":{"name":"view_media","arguments":"{\"mediaId\":\"8\"}"}}]}}]}`,
			func(e Endpoint) Model { return OpenAI{e} }, []string{`"role":"system"`, `"tool_call_id":"c1"`, `"arguments":"{\"mediaId\":\"7\"}"`, "data:image/jpeg;base64,anBlZw==", `"parameters":{"type":"object"}`}},
		{"anthropic", "/v1/messages", "X-Api-Key", `{"content":[{"type":"text","text":"Look"},{"type":"tool_use","id":"c2","name":"view_media","input":{"mediaId":"8"}}]}`,
			func(e Endpoint) Model { return Anthropic{e} }, []string{`"system":"Stores media."`, `"tool_use_id":"c1"`, `"input":{"mediaId":"7"}`, `"data":"anBlZw=="`, `"input_schema":{"type":"object"}`}},
	} {
		var body, key string
		status := http.StatusOK
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var sent json.RawMessage
			if err := json.NewDecoder(r.Body).Decode(&sent); err != nil || r.URL.Path != api.path {
				t.Errorf("%s: %s %v", api.name, r.URL.Path, err)
			}
			body, key = string(sent), r.Header.Get(api.header)
			w.WriteHeader(status)
			_, _ = w.Write([]byte(api.answer))
		}))
		model := api.of(Endpoint{URL: server.URL + "/v1", Key: "secret", Model: "m", Client: server.Client()})
		next, err := model.Next(t.Context(), conversation)
		must(t, err)
		if next.Text != "Look" || len(next.Calls) != 1 || next.Calls[0].ID != "c2" || next.Calls[0].Arguments["mediaId"] != "8" || !strings.HasSuffix(key, "secret") {
			t.Errorf("%s: %+v with the key %s", api.name, next, key)
		}
		for _, part := range api.sent {
			if !strings.Contains(body, part) {
				t.Errorf("%s: the request lacks %s: %s", api.name, part, body)
			}
		}
		status = http.StatusTooManyRequests
		if _, err := model.Next(t.Context(), conversation); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: an error of the API is %v", api.name, err)
		}
		server.Close()
	}
}
