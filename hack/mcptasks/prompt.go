package mcptasks

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
)

// plannedKnown returns what a task knows that is not carried out: ids that no item has.
func plannedKnown(task Task) values {
	known := values{"today": time.Now().UTC().Format(time.DateOnly), "remote": "https://files.example.net"}
	for _, given := range task.Given {
		digest := sha256.Sum256([]byte(task.Name + " " + given.As))
		id, _ := uuid.FromBytes(digest[:16]) // 16 bytes are an id
		id[6], id[8] = 0x70|id[6]&0x0f, 0x80|id[8]&0x3f
		known[given.As] = id.String()
	}
	return known
}

// plan tells a model without tools how to answer.
const plan = `You have the tools below, but you cannot call them now. Write the calls that you would make, in their order, and what you would tell the user at the end, as one JSON object and nothing else:

{"calls": [{"tool": "name", "arguments": {}}], "answer": "text for the user"}

- A value from the result of an earlier call is a reference: "$1.mediaId" is the member mediaId of the result of the first call, "$2.mediaItems[0].mediaId" that of the first item of the second one.
- Assume that a list has what the task speaks of, in the order of the task.
- If you would ask the user before a call, leave the call out, and ask in the answer.
`

// Prompt returns a task for a model without an API: its tools, the task, and how to answer.
func Prompt(task Task) (string, error) {
	tools, instructions, err := toolsOf(task)
	if err != nil {
		return "", err
	}
	says, err := plannedKnown(task).expand(task.Task)
	if err != nil {
		return "", err
	}
	var text strings.Builder
	text.WriteString(plan)
	if task.Then != nil {
		fmt.Fprintf(&text, "- After your answer the user says: %q. Write what you do then, too: with \"second\": true in each of those calls. The answer is the last one.\n", task.Then.Says)
	}
	fmt.Fprintf(&text, "\nThe server says: %s\n\nThe tools:\n", instructions)
	for _, tool := range tools {
		shown, err := json.Marshal(struct {
			Name        string          `json:"name"`
			Description string          `json:"description"`
			InputSchema json.RawMessage `json:"inputSchema"`
		}{tool.Name, tool.Description, tool.InputSchema})
		if err != nil {
			return "", err
		}
		text.Write(shown)
		text.WriteByte('\n')
	}
	fmt.Fprintf(&text, "\nThe user says: %s\n", says)
	return text.String(), nil
}

// toolsOf returns the tools of the account of a task, from tools.json. A tool that several toolsets change has the form of one of them.
func toolsOf(task Task) (tools []Tool, instructions string, err error) {
	sets, err := Toolsets()
	if err != nil {
		return nil, "", err
	}
	wanted := slices.Clone(task.Toolsets)
	if len(task.Approval) > 0 {
		wanted = append(wanted, "approval")
	}
	var core Toolset
	for _, set := range sets {
		if set.Name == "core" {
			core = set
		}
	}
	tools, instructions = slices.Clone(core.Tools), core.Instructions
	for _, name := range wanted {
		at := slices.IndexFunc(sets, func(set Toolset) bool { return set.Name == name })
		if at < 0 {
			return nil, "", fmt.Errorf("there is no toolset %s", name)
		}
		if len(wanted) == 1 {
			instructions = sets[at].Instructions
		}
		for _, tool := range sets[at].Tools {
			was, had := Find(tools, tool.Name)
			of, inCore := Find(core.Tools, tool.Name)
			if had && inCore && string(of.Text) == string(tool.Text) {
				continue // another set has changed it, this one has not
			}
			if had {
				tools = slices.DeleteFunc(tools, func(one Tool) bool { return one.Name == was.Name })
			}
			tools = append(tools, tool)
		}
	}
	if task.ReadOnly {
		tools = slices.DeleteFunc(tools, func(tool Tool) bool { return !tool.Reads() })
	}
	return tools, instructions, nil
}

// ReadReply returns the transcript that a model has written as an answer to a prompt. Text around the JSON object is left out.
func ReadReply(task Task, reply string) (Transcript, error) {
	transcript := Transcript{Task: task.Name, Plan: true, Known: plannedKnown(task)}
	begin, end := strings.Index(reply, "{"), strings.LastIndex(reply, "}")
	if begin < 0 || end < begin {
		return transcript, errors.New("the reply has no JSON object")
	}
	var said struct {
		Calls  []Made `json:"calls"`
		Answer string `json:"answer"`
	}
	if err := json.Unmarshal([]byte(reply[begin:end+1]), &said); err != nil {
		return transcript, fmt.Errorf("the reply: %w", err)
	}
	transcript.Calls, transcript.Answers = said.Calls, []string{said.Answer}
	for i := range transcript.Calls {
		transcript.Calls[i].Result, transcript.Calls[i].Error = nil, "" // nothing was called
	}
	return transcript, nil
}
