// Command crash proves that the service loses nothing that it acknowledged and keeps
// nothing that it deleted, by breaking it: two runtimes and the purge, as they are
// shipped, work for clients that upload, seal, delete and read, while they are killed
// again and again, and PostgreSQL and the object store are killed, stopped and cut off.
// Afterwards every acknowledgement is held against what is there. `make crash` runs it.
//
// A seed fixes what is broken, in which order and after which pauses, and what every
// client sends. It does not fix how the machine schedules the processes: the same seed
// breaks the same things again, but not at the same instruction.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
)

type options struct {
	Seed    uint64 `help:"What is broken and what is sent; 0 = choose one, and print it."`
	Kills   int    `help:"How often runtimes and purges are killed." default:"300"`
	Clients int    `help:"Clients that work at once." default:"8"`
	Dir     string `help:"Folder for the data; a temporary one by default. It is kept when something is wrong." type:"path"`
	Wait    bool   `help:"Wait minutes for leases and claims to run out at the end, instead of moving them in the database."`
}

func main() {
	var o options
	kong.Parse(&o, kong.Name("crash"), kong.Description("Kill the service many times under load, and hold what is left against what was acknowledged."))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "crash:", err)
		os.Exit(1)
	}
}

// run is a whole crash run. It fails when anything was wrong.
func run(ctx context.Context, o options, out io.Writer) error {
	if o.Kills < 1 || o.Clients < 1 {
		return fmt.Errorf("kills and clients must be positive")
	}
	if o.Seed == 0 {
		o.Seed = uint64(time.Now().UnixNano())
	}
	begun := time.Now()
	r, err := startRig(ctx, o.Dir)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "seed %d, %d kills, %d clients, data in %s\n", o.Seed, o.Kills, o.Clients, r.dir)
	m := newModel(begun)
	keep, err := r.crash(ctx, o, m, out)
	r.close(keep)
	if err != nil {
		return fmt.Errorf("seed %d: %w", o.Seed, err)
	}
	fmt.Fprintf(out, "seed %d: nothing lost, nothing left, in %s\n", o.Seed, time.Since(begun).Round(time.Second))
	return nil
}

// crash breaks and proves. keep says whether the data is worth a look.
func (r *rig) crash(ctx context.Context, o options, m *model, out io.Writer) (keep bool, err error) {
	working, rest := context.WithCancel(ctx)
	defer rest()
	l := startLoad(working, r, m, o)
	w := startWatch(working, r, m)
	c := newChaos(r, m, o.Seed)
	progress := time.NewTicker(10 * time.Second)
	defer progress.Stop()
	broken := make(chan error, 1)
	go func() { broken <- c.run(working, o.Kills) }()
	for running := true; running; {
		select {
		case err = <-broken:
			running = false
		case <-progress.C:
			fmt.Fprintf(out, "%4.0f s  %d of %d kills; %s\n", time.Since(m.begun).Seconds(), c.service(), o.Kills, m.progress())
		}
		if m.failed() {
			break
		}
	}
	rest()
	l.wait()
	w.wait()
	if err == nil && !m.failed() && ctx.Err() == nil {
		err = r.prove(ctx, m, o.Wait)
	}
	fmt.Fprintf(out, "broken: %s\n", c)
	fmt.Fprintf(out, "answers: %s\n", m.answers())
	fmt.Fprintf(out, "items: %s\n", m.progress())
	switch {
	case ctx.Err() != nil:
		return false, context.Cause(ctx)
	case m.failed():
		m.print(out, r.logLines)
		_ = os.WriteFile(filepath.Join(r.dir, "schedule.log"), []byte(m.schedule()), 0o600)
		return true, errors.Join(err, fmt.Errorf("%d things are wrong; the data is in %s", m.wrongs(), r.dir))
	}
	return err != nil, err
}
