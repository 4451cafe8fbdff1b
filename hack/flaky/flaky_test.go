package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/hack/testenv/wait"
)

var must = check.NoError

// mainEnv makes the program of the tests the command itself.
const mainEnv = "FLAKY_TEST_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(mainEnv) != "" || len(os.Args) == 2 && os.Args[1] == busyFlag {
		main()
	}
	os.Exit(m.Run())
}

// Parts of scripts. They end with a status, and write what a run of tests writes. count is the number of the round.
const (
	count  = `count=$(($(cat "$DIR/count" 2>/dev/null || echo 0) + 1)); echo $count >"$DIR/count"` + "\n"
	passes = `cat >"$EVENTS" <<'END'
{"Action":"run","Package":"p","Test":"TestX"}
{"Action":"pass","Package":"p","Test":"TestX","Elapsed":1}
{"Action":"pass","Package":"p","Elapsed":1}
END
echo all is well; exit 0
`
	fails = `cat >"$EVENTS" <<'END'
{"Action":"run","Package":"p","Test":"TestX"}
{"Action":"run","Package":"p","Test":"TestX/sub"}
{"Action":"fail","Package":"p","Test":"TestX/sub","Elapsed":1}
{"Action":"fail","Package":"p","Test":"TestX","Elapsed":1}
{"Action":"fail","Package":"p","Elapsed":1}
END
echo it failed; exit 1
`
)

// script writes a script with a folder of its own in DIR, and returns it and that folder.
func script(t *testing.T, text string) (path, dir string) {
	t.Helper()
	dir = t.TempDir()
	path = filepath.Join(dir, "tests.sh")
	must(t, os.WriteFile(path, []byte("DIR='"+dir+"'\n"+text), 0o600))
	return path, dir
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	must(t, err)
	return string(content)
}

// flaky runs rounds of a script, with two busy processes. In what they print the times are N.
func flaky(t *testing.T, rounds int, text string, args ...string) (status int, out, dir string) {
	t.Helper()
	path, dir := script(t, text)
	var printed, messages strings.Builder
	arguments := append([]string{"--rounds", strconv.Itoa(rounds), "--load", "2", "--logs", filepath.Join(dir, "logs"), "--", "sh", path}, args...)
	status = run(t.Context(), arguments, &printed, &messages)
	return status, elapsed.ReplaceAllString(printed.String(), ": N s, ") + messages.String(), dir
}

// elapsed is the time of a round.
var elapsed = regexp.MustCompile(`: \d+ s, `)

func expect(t *testing.T, out string, want ...string) {
	t.Helper()
	for _, text := range want {
		if !strings.Contains(out, text) {
			t.Errorf("%q is not in\n%s", text, out)
		}
	}
}

func TestRounds_NameATestThatFailedInOneOfThem(t *testing.T) {
	t.Parallel()
	status, out, dir := flaky(t, 3, count+`if [ $count = 2 ]; then `+fails+"fi\n"+passes)
	log := filepath.Join(dir, "logs", "round-2.log")
	want := `round 1 of 3, quiet: N s, no failure
round 2 of 3, loaded: N s, 1 failure: p TestX/sub failed
round 3 of 3, quiet: N s, no failure

3 of 3 rounds ran. These failed:
p TestX/sub failed: 1 of 3 rounds: 2 (loaded)
  ` + log + "\n"
	if status != exitFailed || out != want {
		t.Errorf("it ends with %d and prints\n%s\ninstead of\n%s", status, out, want)
	}
	if got := readFile(t, log); got != "it failed\n" {
		t.Errorf("the log of round 2 is %q", got)
	}
	for file, want := range map[string]bool{"round-1.json": false, "round-2.json": true, "round-3.json": false, "round-1.log": true} {
		if _, err := os.Stat(filepath.Join(dir, "logs", file)); (err == nil) != want {
			t.Errorf("%s: %v", file, err)
		}
	}
}

func TestRounds_ContinueAnInterruptedRun(t *testing.T) {
	t.Parallel()
	path, dir := script(t, passes)
	var out strings.Builder
	for _, args := range [][]string{{"--rounds", "2"}, {"--rounds", "4", "--first", "3"}} {
		out.Reset()
		if status := run(t.Context(), append(args, "--load", "1", "--logs", dir, "--", "sh", path), &out, io.Discard); status != 0 {
			t.Errorf("%q ends with %d", args, status)
		}
	}
	if got := elapsed.ReplaceAllString(out.String(), ": N s, "); got != "round 3 of 4, quiet: N s, no failure\nround 4 of 4, loaded: N s, no failure\n\n2 of 2 rounds ran, from round 3 on. No test failed.\n" {
		t.Errorf("it prints %s", got)
	}
	if logs, err := filepath.Glob(filepath.Join(dir, "round-*.log")); err != nil || len(logs) != 4 {
		t.Errorf("the logs are %q (%v)", logs, err)
	}
}

func TestRounds_AreTwentyOfTestsThatPass(t *testing.T) {
	t.Parallel()
	path, dir := script(t, count+passes)
	var out strings.Builder
	if status := run(t.Context(), []string{"--load", "1", "--logs", dir, "--", "sh", path}, &out, io.Discard); status != 0 {
		t.Errorf("it ends with %d", status)
	}
	expect(t, out.String(), "round  1 of 20, quiet: ", "round 20 of 20, loaded: ", "\n20 of 20 rounds ran. No test failed.\n")
	if got := readFile(t, filepath.Join(dir, "count")); got != "20\n" {
		t.Errorf("the command ran %s times", got)
	}
}

func TestRounds_CountATestThatFailedAndPassedInTheSameRound(t *testing.T) {
	t.Parallel()
	status, out, _ := flaky(t, 2, `cat >"$EVENTS" <<'END'
{"Action":"fail","Package":"p","Test":"TestY","Elapsed":1}
{"Action":"fail","Package":"p","Elapsed":1}
{"Action":"fail","Package":"p","Test":"TestY","Elapsed":1}
{"Action":"fail","Package":"p","Elapsed":1}
{"Action":"pass","Package":"p","Test":"TestY","Elapsed":1}
{"Action":"pass","Package":"p","Elapsed":1}
END
exit 0`)
	if status != exitFailed {
		t.Errorf("it ends with %d", status)
	}
	expect(t, out, "p TestY failed: 2 of 2 rounds: 1 (quiet), 2 (loaded)\n")
}

func TestRounds_NameACommandThatFailsWithoutAFailedTest(t *testing.T) {
	t.Parallel()
	const partial = `printf '{"Action":"run","Package":"p","Test":"TestX"}\n{"Acti' >"$EVENTS"` + "\n"
	for name, test := range map[string]struct{ script, want string }{
		"before any events":          {"exit 2", "the command failed (exit status 2) without a failed test"},
		"by a signal, amid an event": {partial + "kill -KILL $$", "the command failed (signal: killed) without a failed test"},
		"a build error": {`echo '{"Action":"fail","Package":"p","Elapsed":0,"FailedBuild":"p"}' >"$EVENTS"; exit 1`,
			"p does not build"},
		"a timeout": {`printf '{"Action":"run","Package":"p","Test":"TestX"}\n{"Action":"fail","Package":"p","Elapsed":9}\n' >"$EVENTS"; exit 1`,
			"p TestX did not end (panic, timeout or exit)"},
		"success without events":     {"exit 0", "the events of the tests cannot be read: open "},
		"success without tests":      {`: >"$EVENTS"`, "the command ran no tests"},
		"success with half an event": {partial + "exit 0", "the events of the tests cannot be read: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			status, out, _ := flaky(t, 1, test.script)
			if status != exitFailed {
				t.Errorf("it ends with %d", status)
			}
			expect(t, out, "round 1 of 1, quiet: N s, 1 failure: "+test.want, "\n1 of 1 rounds ran. These failed:\n"+test.want)
		})
	}
}

func TestCommand_GetsTheFileForEvents(t *testing.T) {
	t.Parallel()
	_, _, dir := flaky(t, 1, `printf '%s\n' "$@" "$EVENTS" >"$DIR/arguments"`+"\n"+passes, "a b", "EVENTS={events}")
	events := filepath.Join(dir, "logs", "round-1.json")
	if got, want := readFile(t, filepath.Join(dir, "arguments")), "a b\nEVENTS="+events+"\n"+events+"\n"; got != want {
		t.Errorf("the command gets %q instead of %q", got, want)
	}
}

func TestRounds_RemoveTheLogsOfAnEarlierRun(t *testing.T) {
	t.Parallel()
	path, dir := script(t, passes)
	logs := filepath.Join(dir, "logs")
	must(t, os.MkdirAll(logs, 0o755))
	for _, name := range []string{"round-07.log", "round-07.json", "mine.txt"} {
		must(t, os.WriteFile(filepath.Join(logs, name), nil, 0o600))
	}
	if status := run(t.Context(), []string{"--rounds", "1", "--logs", logs, "--", "sh", path}, io.Discard, io.Discard); status != 0 {
		t.Errorf("it ends with %d", status)
	}
	left, err := os.ReadDir(logs)
	if err != nil || len(left) != 2 || left[0].Name() != "mine.txt" || left[1].Name() != "round-1.log" {
		t.Errorf("the folder has %v (%v)", left, err)
	}
}

func TestRun_ExplainsItsArguments(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		"the command is missing":                {"--rounds", "3", "--"},
		"--rounds and --load are at least 1":    {"--rounds", "0", "--", "true"},
		"--first is from 1 to 3":                {"--rounds", "3", "--first", "4", "--", "true"},
		"flag provided but not defined: -round": {"--round", "0", "--", "true"},
	} {
		var messages strings.Builder
		if status := run(t.Context(), args, io.Discard, &messages); status != exitUsage {
			t.Errorf("%q: it ends with %d", args, status)
		}
		expect(t, messages.String(), want, "usage: flaky ")
		if strings.Contains(messages.String(), busyFlag) {
			t.Errorf("the usage has the hidden flag:\n%s", messages.String())
		}
	}
	var messages strings.Builder
	if status := run(t.Context(), []string{"--logs", t.TempDir(), "--", "/no/such/program"}, &messages, &messages); status != exitUsage {
		t.Errorf("without a program it ends with %d", status)
	}
	expect(t, messages.String(), "flaky: round 1: ", "/no/such/program", "0 of 20 rounds ran")
}

// children are the busy processes that a process started and that have not ended.
func children(t *testing.T, parent int) []int {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	must(t, err)
	var found []int
	for _, path := range stats {
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		must(t, err)
		stat, err := os.ReadFile(path)
		if err != nil {
			continue // it ended
		}
		_, fields, _ := bytes.Cut(stat, []byte(") ")) // after the name: state, parent, ...
		if f := bytes.Fields(fields); len(f) > 1 && string(f[1]) == strconv.Itoa(parent) && isBusy(pid) {
			found = append(found, pid)
		}
	}
	return found
}

// isBusy reports whether a process is a busy one. One that ended and was not waited for has no arguments.
func isBusy(pid int) bool {
	arguments, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return bytes.HasSuffix(arguments, []byte("\x00"+busyFlag+"\x00"))
}

// process is a run of the command in a process of its own.
type process struct {
	*exec.Cmd
	out bytes.Buffer
}

// start runs the command with a script.
func start(t *testing.T, rounds, load int, text string) (started *process, dir string) {
	t.Helper()
	path, dir := script(t, text)
	started = &process{Cmd: exec.Command(os.Args[0], "--rounds", strconv.Itoa(rounds), "--load", strconv.Itoa(load), "--logs", dir, "--", "sh", path)}
	started.Env = append(os.Environ(), mainEnv+"=1")
	started.Stdout, started.Stderr = &started.out, &started.out
	started.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // a test that timed out leaves nothing
	started.WaitDelay = time.Minute                                        // for a child of the command that keeps the output open
	must(t, started.Start())
	t.Cleanup(func() {
		_ = started.Process.Kill()
		_ = started.Wait()
	})
	return started, dir
}

// status waits for the end.
func (p *process) status(t *testing.T) int {
	t.Helper()
	var exit *exec.ExitError
	if err := p.Wait(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return p.ProcessState.ExitCode()
}

// waits makes a round begin with a file began-N, and wait for a file go-N.
const waits = count + `: >"$DIR/began-$count"; while [ ! -e "$DIR/go-$count" ]; do sleep 0.01; done` + "\n"

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func TestLoad_IsThereInEvenRoundsAlone(t *testing.T) {
	t.Parallel()
	started, dir := start(t, 5, 3, waits+passes)
	for number := 1; number <= 5; number++ {
		wait.Until(t, fmt.Sprintf("round %d", number), func() bool { return exists(filepath.Join(dir, fmt.Sprintf("began-%d", number))) })
		want := 0
		if number%2 == 0 {
			want = 3
		}
		// A process that was started may not have its arguments yet.
		wait.Until(t, fmt.Sprintf("round %d with %d busy processes", number, want), func() bool { return len(children(t, started.Process.Pid)) == want })
		if want > 0 {
			busy := children(t, started.Process.Pid)[0]
			before := processorTime(t, busy)
			wait.Until(t, "work of a busy process", func() bool { return processorTime(t, busy) > before })
		}
		must(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("go-%d", number)), nil, 0o600))
	}
	if status := started.status(t); status != 0 {
		t.Errorf("it ends with %d:\n%s", status, started.out.String())
	}
}

// processorTime is the time that a process ran in user mode, in ticks of the kernel.
func processorTime(t *testing.T, pid int) int {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	must(t, err)
	_, fields, _ := bytes.Cut(stat, []byte(") "))
	ticks, err := strconv.Atoi(string(bytes.Fields(fields)[11]))
	must(t, err)
	return ticks
}

func TestLoad_EndsWithItsParent(t *testing.T) {
	t.Parallel()
	started, dir := start(t, 2, 2, count+`if [ $count = 1 ]; then `+passes+"fi\n"+`echo $$ >"$DIR/pid"; exec sleep 600`)
	wait.Until(t, "the second round", func() bool {
		text, _ := os.ReadFile(filepath.Join(dir, "pid"))
		return bytes.HasSuffix(text, []byte("\n")) && len(children(t, started.Process.Pid)) == 2
	})
	command, err := strconv.Atoi(strings.TrimSpace(readFile(t, filepath.Join(dir, "pid"))))
	must(t, err)
	busy := children(t, started.Process.Pid)
	must(t, started.Process.Kill())
	started.status(t)
	wait.Until(t, "the end of the busy processes", func() bool { return !isBusy(busy[0]) && !isBusy(busy[1]) })
	wait.Until(t, "the end of the command", func() bool {
		arguments, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", command))
		return !bytes.HasPrefix(arguments, []byte("sleep\x00600\x00"))
	})
}

func TestInterrupt_EndsTheCommandAndPrintsTheSummary(t *testing.T) {
	t.Parallel()
	const hangs = `echo $$ >"$DIR/pid.new"; sleep 600 & echo $! >>"$DIR/pid.new"; mv "$DIR/pid.new" "$DIR/pid"; wait`
	for name, test := range map[string]struct {
		first  string
		status int
		want   string
	}{
		"after a failure":  {fails, exitFailed, "\n1 of 9 rounds ran. These failed:\np TestX/sub failed: 1 of 1 rounds: 1 (quiet)\n"},
		"without failures": {passes, exitInterrupted, "\n1 of 9 rounds ran. No test failed.\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			started, dir := start(t, 9, 2, count+`if [ $count = 1 ]; then `+test.first+"fi\n"+hangs)
			wait.Until(t, "the second round", func() bool {
				return exists(filepath.Join(dir, "pid")) && len(children(t, started.Process.Pid)) == 2
			})
			busy := children(t, started.Process.Pid)
			must(t, started.Process.Signal(os.Interrupt))
			if status := started.status(t); status != test.status {
				t.Errorf("it ends with %d instead of %d", status, test.status)
			}
			expect(t, started.out.String(), "round 2 of 9, loaded: interrupted\n", test.want)
			for _, pid := range busy {
				if isBusy(pid) {
					t.Errorf("the busy process %d has not ended", pid)
				}
			}
			for _, text := range strings.Fields(readFile(t, filepath.Join(dir, "pid"))) {
				pid, err := strconv.Atoi(text)
				must(t, err)
				// init may not have waited for the child of the command yet.
				wait.Until(t, "the end of "+text, func() bool {
					arguments, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
					return len(arguments) == 0 || errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
				})
			}
		})
	}
}

func TestLoad_ReportsAProcessThatEndedByItself(t *testing.T) {
	t.Parallel()
	program, err := exec.LookPath("true")
	must(t, err)
	processes, err := startLoad(program, 1)
	must(t, err)
	state := fmt.Sprintf("/proc/%d/stat", processes[0].Process.Pid)
	wait.Until(t, "the end of the process", func() bool { return strings.Contains(readFile(t, state), ") Z ") })
	if err := processes.stop(); err == nil || !strings.Contains(err.Error(), "ended by itself: exit status 0") {
		t.Errorf("the error is %v", err)
	}
	if _, err := startLoad("/no/such/program", 1); err == nil {
		t.Error("a program that does not exist was started")
	}
}

func TestRounds_EndWithTheirContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	path, dir := script(t, passes)
	var out strings.Builder
	if status := run(ctx, []string{"--logs", dir, "--", "sh", path}, &out, &out); status != exitInterrupted {
		t.Errorf("it ends with %d", status)
	}
	expect(t, out.String(), "round  1 of 20, quiet: interrupted\n\n0 of 20 rounds ran. No test failed.\n")
}
