// Command run has a model do the tasks of hack/mcptasks, against a service that it starts for them, or scores what a model without an API has
// answered. See docs/guides/develop.md, "Tasks for models".
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"mediastack.dev/hack/mcptasks"
	"mediastack.dev/hack/servers"
)

type commands struct {
	Run   runCommand   `cmd:"" help:"Have a model do the tasks."`
	Print printCommand `cmd:"" help:"Print the prompts for a model without an API, one JSON object with task and prompt a line; of one task, the prompt alone."`
	Score scoreCommand `cmd:"" help:"Score the answers to the prompts, or transcripts: a JSON object a line, with task and reply, or as run writes them."`
}

func main() {
	cli := kong.Parse(&commands{}, kong.Name("mcptasks"), kong.Description("Tasks in plain words for a model that has the tools of /mcp."))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	cli.BindTo(ctx, (*context.Context)(nil))
	if err := cli.Run(); err != nil {
		stop()
		fmt.Fprintln(os.Stderr, "mcptasks:", err)
		os.Exit(1) //nolint:gocritic // stop was called
	}
}

// selected returns the tasks with these names; none = all.
func selected(names []string) ([]mcptasks.Task, error) {
	tasks, err := mcptasks.Tasks()
	if err != nil || len(names) == 0 {
		return tasks, err
	}
	var found []mcptasks.Task
	for _, name := range names {
		at := slices.IndexFunc(tasks, func(task mcptasks.Task) bool { return task.Name == name })
		if at < 0 {
			return nil, fmt.Errorf("there is no task %s", name)
		}
		found = append(found, tasks[at])
	}
	return found, nil
}

type printCommand struct {
	Tasks []string `arg:"" optional:"" help:"Names of tasks."`
}

// Run prints the prompts.
func (c printCommand) Run() error {
	tasks, err := selected(c.Tasks)
	if err != nil {
		return err
	}
	for _, task := range tasks {
		prompt, err := mcptasks.Prompt(task)
		if err != nil {
			return err
		}
		if len(c.Tasks) == 1 {
			fmt.Print(prompt)
			return nil
		}
		if err := json.NewEncoder(os.Stdout).Encode(map[string]string{"task": task.Name, "prompt": prompt}); err != nil {
			return err
		}
	}
	return nil
}

type scoreCommand struct {
	File string `arg:"" help:"File with the answers; - is the standard input."`
}

// maxLine bounds a transcript, which can have the results of many calls.
const maxLine = 64 << 20

// Run scores a file.
func (c scoreCommand) Run() error {
	var from io.Reader = os.Stdin
	if c.File != "-" {
		file, err := os.Open(c.File)
		if err != nil {
			return err
		}
		defer func() { _ = file.Close() }()
		from = file
	}
	tasks, err := selected(nil)
	if err != nil {
		return err
	}
	report, err := newReport(os.Stdout)
	if err != nil {
		return err
	}
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		if len(lines.Bytes()) == 0 {
			continue
		}
		var line struct {
			mcptasks.Transcript
			Reply string `json:"reply"`
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			return err
		}
		at := slices.IndexFunc(tasks, func(task mcptasks.Task) bool { return task.Name == line.Task })
		if at < 0 {
			return fmt.Errorf("there is no task %q", line.Task)
		}
		transcript := line.Transcript
		if line.Reply != "" {
			if transcript, err = mcptasks.ReadReply(tasks[at], line.Reply); err != nil {
				report.add(mcptasks.Score{Task: line.Task, Wrong: err.Error()})
				continue
			}
		}
		report.add(mcptasks.ScoreOf(tasks[at], transcript, report.reads))
	}
	if err := lines.Err(); err != nil {
		return err
	}
	return report.end()
}

type runCommand struct {
	API   string   `help:"API of the model." enum:"openai,anthropic" default:"openai"`
	URL   string   `env:"MCPTASKS_URL" required:"" help:"URL of the API, such as https://api.example.com/v1."`
	Key   string   `env:"MCPTASKS_KEY" help:"Key of the API."`
	Model string   `env:"MCPTASKS_MODEL" required:"" help:"Name of the model."`
	Out   string   `help:"File that takes the transcripts, a JSON object a line." type:"path"`
	Tasks []string `arg:"" optional:"" help:"Names of tasks; all without one."`
}

// taskTimeout is how long a model has for a task.
const taskTimeout = 10 * time.Minute

// Run has the model do the tasks, one after the other.
func (c runCommand) Run(ctx context.Context) error {
	tasks, err := selected(c.Tasks)
	if err != nil {
		return err
	}
	endpoint := mcptasks.Endpoint{URL: c.URL, Key: c.Key, Model: c.Model, Client: http.DefaultClient}
	var model mcptasks.Model = mcptasks.OpenAI{Endpoint: endpoint}
	if c.API == "anthropic" {
		model = mcptasks.Anthropic{Endpoint: endpoint}
	}
	out := io.Discard
	if c.Out != "" {
		file, err := os.Create(c.Out)
		if err != nil {
			return err
		}
		defer func() { _ = file.Close() }()
		out = file
	}
	report, err := newReport(os.Stdout)
	if err != nil {
		return err
	}
	stack, stop, err := start(ctx)
	if err != nil {
		return err
	}
	defer stop()
	for _, task := range tasks {
		ctx, cancel := context.WithTimeout(ctx, taskTimeout)
		transcript, err := stack.Run(ctx, task, model)
		cancel()
		if err != nil {
			report.add(mcptasks.Score{Task: task.Name, Calls: len(transcript.Calls), Wrong: err.Error()})
			continue
		}
		if err := json.NewEncoder(out).Encode(transcript); err != nil {
			return err
		}
		report.add(mcptasks.ScoreOf(task, transcript, report.reads))
	}
	return report.end()
}

// start starts a service for the tasks.
func start(ctx context.Context) (stack mcptasks.Stack, stop func(), err error) {
	dir, err := servers.MakeDataDir("", "mediastack-mcptasks-")
	if err != nil {
		return stack, nil, err
	}
	group := servers.NewGroup()
	remote, err := servers.StartFiles(dir, mcptasks.Remote)
	stop = func() {
		group.Close()
		if remote != nil {
			remote.Close()
		}
		_ = os.RemoveAll(dir)
	}
	defer func() {
		if err != nil {
			stop()
		}
	}()
	if err != nil {
		return stack, nil, err
	}
	const database = "mcptasks"
	db, err := group.StartPostgres(ctx, servers.PostgresConfig{Dir: filepath.Join(dir, "postgres"), LogFile: filepath.Join(dir, "postgres.log"), TCP: true, Password: servers.RandomSecret(8), Volatile: true})
	if err == nil {
		err = db.CreateDatabase(ctx, database)
	}
	if err != nil {
		return stack, nil, err
	}
	store, err := group.StartS3(ctx, servers.S3Config{Dir: filepath.Join(dir, "s3"), LogFile: filepath.Join(dir, "s3.log")})
	if err != nil {
		return stack, nil, err
	}
	_, address, err := group.StartMailSink(ctx, 0, filepath.Join(dir, "mail.log"))
	if err != nil {
		return stack, nil, err
	}
	stack = mcptasks.Stack{Database: db.AdminURL(database), Access: store.Access, RemoteURL: remote.URL}
	if err := stack.Migrate(ctx); err != nil {
		return stack, nil, err
	}
	service, err := group.StartRuntime(ctx, servers.RuntimeConfig{LogDir: dir, Stores: servers.StoreSettings(stack.Database, stack.Access), Env: slices.Concat(remote.Settings, servers.MailSettings(address), servers.Unlimited)})
	if err != nil {
		return stack, nil, err
	}
	stack.BaseURL = service.BaseURL
	return stack, stop, nil
}

// report prints the scores.
type report struct {
	to    io.Writer
	reads func(string) bool

	tasks, right, calls, errors int
}

func newReport(to io.Writer) (*report, error) {
	reads, err := mcptasks.Reads()
	return &report{to: to, reads: reads}, err
}

func (r *report) add(score mcptasks.Score) {
	r.tasks++
	r.calls += score.Calls
	r.errors += score.Errors
	result := "right"
	if score.Right() {
		r.right++
	} else {
		result = "WRONG"
	}
	_, _ = fmt.Fprintf(r.to, "%-5s  %-36s  %2d calls (%d expected), %d failed  %s\n", result, score.Task, score.Calls, score.Expected, score.Errors, score.Wrong)
}

// end prints the sum. Not every task has to be right: what a model reaches is compared with an earlier run.
func (r *report) end() error {
	if r.tasks == 0 {
		return errors.New("there is nothing to score")
	}
	_, err := fmt.Fprintf(r.to, "\n%d of %d tasks are right, with %d calls, of which %d failed\n", r.right, r.tasks, r.calls, r.errors)
	return err
}
