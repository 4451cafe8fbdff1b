// Command bench measures the service against the raw limit, as ratios inside one run:
// uploads and downloads against bare minio-go and against a relay that only passes the
// bytes on, resumable uploads against tusd besides, reads against a bare handler with
// the same SQL, a million items against a thousand, images against the vips command
// line, tools for assistants against the bare SDK, memory against a bound, requests
// beside the purge and beside logins against those alone. Every benchmark starts its own PostgreSQL (which syncs to disk, as in
// production), S3 store and runtime, takes its sides in turn so that a machine whose
// speed drifts does not favour one, and prints medians. Aims stand beside the ratios;
// missing one fails nothing. `make bench` runs it.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
)

type options struct {
	Names []string `arg:"" optional:"" name:"benchmark" help:"Which to run, in this order; all of them without a name."`

	Clients        int           `help:"Requests in flight in upload, read and download." default:"16"`
	Rounds         int           `help:"Times that each side is measured; one more before does not count." default:"5"`
	Length         time.Duration `help:"How long one side is measured in one round; read and scale take a third of it." default:"2s"`
	Items          int           `help:"scale: items of the large account; the small one has a thousand." default:"1000000"`
	Photos         int           `help:"images: copies of each photo in one round." default:"4"`
	Megapixels     float64       `help:"images: size of the photos, as a part of the usual one." default:"1"`
	Drafts         int           `help:"purge: drafts that are too old." default:"100000"`
	Idle           time.Duration `help:"purge, logins: how long the idle service is watched before and after; logins go on for as long." default:"15s"`
	Pace           int           `help:"purge, logins: requests a second, an upload of 10 KB in four and gets." default:"80"`
	Logins         int           `help:"logins: logins a second." default:"100"`
	Uploads        int           `help:"memory: uploads at once." default:"64"`
	UploadBytes    int64         `help:"memory: bytes of each." default:"100000000"`
	ResumableBytes int64         `help:"resumable: bytes of the file, sent in pieces of 8 and of 64 MiB; files of a quarter are sent 16 at once." default:"1073741824"`
	HugeBytes      int           `help:"download: bytes of the file that is measured in one round only; 0 = none." default:"100000000"`

	LogLevel string `help:"The runtime's log level. At info it writes a line for each request, as in production." default:"info" enum:"debug,info,warn,error"`
	Dir      string `help:"Folder for the data; a temporary one by default. About 8 GB are written." type:"path"`
	JSON     string `name:"json" help:"File to write the results to, for scripts." type:"path"`

	volatile bool // PostgreSQL does not sync: tests only
}

// benchmark is one that can be run alone.
type benchmark struct {
	name, what string
	run        func(ctx context.Context, b *bench) error
}

// benchmarks are all of them, in the order of a whole run: the one that fills the
// disk's cache comes last.
var benchmarks = []benchmark{
	{"upload", "100 KB and 10 MB through REST against bare PutObject", upload},
	{"read", "get and list against a bare handler with the same SQL and JSON", read},
	{"scale", "list, count, totals and deep pages at a million items against a thousand", scale},
	{"images", "thumbnail and WebP through REST against the vips command line", images},
	{"mcp", "get_media through MCP against the bare SDK, and the runtime's peak with large files in calls", tools},
	{"download", "files through REST against bare GetObject", download},
	{"purge", "old drafts purged a second, and what requests feel of it", purge},
	{"logins", "what requests feel of many logins a second", logins},
	{"resumable", "a large file through TUS against bare multipart uploads and tusd, and the peak", resumable},
	{"memory", "the runtime's peak with many large uploads at once", memory},
}

func main() {
	play()
	var o options
	kong.Parse(&o, kong.Name("bench"), kong.Description(describe()), kong.ConfigureHelp(kong.HelpOptions{WrapUpperBound: 110}))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o, newReport(os.Stdout, os.Stderr)); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		stop()
		os.Exit(1) //nolint:gocritic // stop was called
	}
}

func describe() string {
	var text strings.Builder
	text.WriteString("Measure the service against the raw limit, as ratios inside one run.\n\nBenchmarks:\n")
	for _, one := range benchmarks {
		fmt.Fprintf(&text, "\n  %-10s %s", one.name, one.what)
	}
	return text.String()
}

func (o options) validate() error {
	if min(o.Clients, o.Rounds, o.Items/smallItems, o.Photos, o.Drafts, o.Pace, o.Logins, o.Uploads) < 1 || min(o.Length, o.Idle) <= 0 || o.UploadBytes < 1 || o.ResumableBytes < 4 ||
		o.HugeBytes < 0 || o.Megapixels <= 0 {
		return errors.New("all numbers must be positive, and items at least 1000")
	}
	for _, name := range o.Names {
		if !slices.ContainsFunc(benchmarks, func(one benchmark) bool { return one.name == name }) {
			return fmt.Errorf("there is no benchmark %q: see --help", name)
		}
	}
	return nil
}

// run runs what was asked for, each benchmark on a stack of its own. One that breaks
// does not keep the others from running.
func run(ctx context.Context, o options, out *report) error {
	if err := o.validate(); err != nil {
		return err
	}
	out.note("%d cores, %s; the runtime has no rate limits and logs at %s; %d rounds for each side after one that does not count; medians",
		runtime.NumCPU(), runtime.Version(), o.LogLevel, o.Rounds)
	chosen := benchmarks
	if len(o.Names) > 0 {
		chosen = nil
		for _, name := range o.Names {
			at := slices.IndexFunc(benchmarks, func(one benchmark) bool { return one.name == name })
			chosen = append(chosen, benchmarks[at])
		}
	}
	var failed []error
	for _, one := range chosen {
		started := time.Now()
		out.heading(one)
		if err := alone(ctx, o, out, one); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", one.name, err))
			out.note("%s broke off: %v", one.name, err)
		}
		if ctx.Err() != nil {
			break
		}
		out.note("%s took %s", one.name, time.Since(started).Round(time.Second))
	}
	out.summary()
	if o.JSON != "" {
		failed = append(failed, out.write(o.JSON, o))
	}
	return errors.Join(failed...)
}

func alone(ctx context.Context, o options, out *report, one benchmark) error {
	rig, err := startRig(ctx, o)
	if err != nil {
		return err
	}
	defer rig.close()
	err = one.run(ctx, &bench{options: o, report: out, rig: rig, name: one.name})
	if err != nil && ctx.Err() == nil {
		out.note("%s", rig.warnings())
	}
	return err
}

// bench is what a benchmark works with.
type bench struct {
	options
	*report
	rig  *rig
	name string
}
