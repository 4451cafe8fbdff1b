// Command bench compares the service with baselines, as ratios inside one run. `make bench` runs it.
//
//   - uploads and downloads: bare minio-go, and a proxy that only copies bytes
//   - resumable uploads: bare multipart uploads, and tusd
//   - deletes: a bare statement and a bare removal of the object
//   - reads: a bare handler with the same SQL, and a million items with a thousand
//   - requests of a thousand accounts: those of one; with a large database: with a small one
//   - uploads whose files are checked before their seal: those of an account without a gate, and bare scans of clamd
//   - images: the vips command line
//   - derivatives: the same photo with images off, and with its derivatives made at the upload
//   - the operator: the writes that no operator can do without
//   - requests beside the purge, and beside pictures in advance: the same requests without them
//   - memory: a limit
//
// Every benchmark starts its own PostgreSQL (which syncs to disk, as in production), S3 store and
// runtime. It measures its sides alternately, so that a machine whose speed drifts favours none, and
// prints medians. Targets stand beside the ratios; a missed target is no failure.
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
	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"
)

type options struct {
	Names []string `arg:"" optional:"" name:"benchmark" help:"Benchmarks to run, in this order; all of them by default."`

	Clients        int           `help:"Requests in flight in upload, read and download." default:"16"`
	Rounds         int           `help:"Rounds of each side, after one warm-up round." default:"5"`
	Length         time.Duration `help:"Length of a round; read and scale use a third of it." default:"2s"`
	Items          int           `help:"scale, search: items of the large account." default:"1000000"`
	Active         int           `help:"accounts: active accounts on one replica." default:"1000"`
	Rate           int           `help:"accounts: uploads per second; four times as many gets." default:"100"`
	DatabaseMemory int           `help:"cold: MiB of memory of PostgreSQL, of which a quarter are shared_buffers; the large database is ten times as large, and needs as much of the disk, and half more." default:"256"`
	Calls          int           `help:"cold: requests of a round." default:"400"`
	Photos         int           `help:"images, derivatives: copies of each photo in one round." default:"4"`
	Megapixels     float64       `help:"images, derivatives: scale of the photos; 1 = full size." default:"1"`
	Events         int           `help:"journal: events of the account with many." default:"1000000"`
	Deletes        int           `help:"delete: items, with an object each, that a round deletes." default:"1500"`
	Gated          int           `help:"gate: files that are checked, at the pace." default:"10000"`
	Drafts         int           `help:"purge: expired drafts, each with an object to remove." default:"100000"`
	EagerItems     int           `help:"eager: items of which pictures are made in advance." default:"10000"`
	EagerRate      int           `help:"eager: items per second of which they are made, from 1 to 1000; fewer if the machine is slower." default:"200"`
	Pace           int           `help:"purge, eager: requests per second beside the work. gate: uploads per second." default:"80"`
	Idle           time.Duration `help:"purge, eager: how long the idle service is measured before and after. operator: how long the idle operator is measured." default:"15s"`
	Uploads        int           `help:"memory: concurrent uploads." default:"64"`
	UploadBytes    int64         `help:"memory: bytes of each." default:"100000000"`
	ResumableBytes int64         `help:"resumable: bytes of the file, sent in requests of 8 and of 64 MiB; memory sends 16 files of a quarter of it." default:"1073741824"`
	Accounts       int           `help:"operator: MediaAccounts with a MediaSettings each; operator-apps has a twentieth of them." default:"400"`
	Creations      int           `help:"operator: accounts that are created while changes are timed; 0 = a tenth of the accounts." default:"0"`

	LogLevel string `help:"The runtime's log level. At info it writes a line for each request, as in production." default:"info" enum:"debug,info,warn,error"`
	Dir      string `help:"Data directory; a temporary one by default. About 8 GB are written." type:"path"`
	JSON     string `name:"json" help:"File to write the results to, for scripts." type:"path"`

	volatile bool // PostgreSQL does not sync: tests only
	// coldFactor is how many times larger than the memory of PostgreSQL the large database of cold is; largeFactor but in tests.
	coldFactor int
	// quiet is how long the operator must write nothing and have nothing to do to count as settled; quietFor but in tests.
	quiet time.Duration
}

// benchmark is one that can be run alone.
type benchmark struct {
	name, what string
	// aims are what its figures are compared with.
	aims string
	run  func(ctx context.Context, b *bench) error
	// settings are those of PostgreSQL that it needs.
	settings map[string]string
}

// benchmarks are in the order of a whole run: the one that fills the disk's cache is the last.
var benchmarks = []benchmark{
	{"upload", "100 KB and 10 MB through REST against bare PutObject", "against the proxy at least 0.75 (100 KB) and 0.80 (10 MB); the runtime's CPU at most 0.60 and 17 ms, PostgreSQL's 0.25 ms at 100 KB; nothing against minio-go", upload, nil},
	{"read", "get and list against a bare handler with the same SQL and JSON", "get at least 0.85 of the bare handler, lists 0.7; list of 100 private: the runtime's CPU at most 1.4 ms", read, nil},
	{"scale", "lists, searches, counts, totals and deep pages at a million items against a thousand", "at most 1.5 times, deep pages 3 times; at most 1500 bytes an item", scale, nil},
	{"search", "searches by words, and by when and where photos were made, among a million items against ten thousand, and uploads with the index of words against those without it", "p99 at most 50 ms and 2 times; PostgreSQL's CPU of an upload at most 1.1 times", search, nil},
	{"accounts", "uploads and gets of a thousand active accounts on one replica against those of one account, at the same pace", "p99 at most 1.3 times", accounts, countedStatements},
	{"images", "thumbnail and WebP through REST against the vips command line", "at least the command line", images, nil},
	{"derivatives", "a photo whose derivatives are made later against images off, and with its thumbnail read at once against AtUpload", "p50 at most 1.3 and 1.2 times", derivatives, nil},
	{"download", "files through REST against bare GetObject", "100 KB at least 0.65 of minio-go and not less than the proxy; 10 MB, which the kernel passes, at least 1.1 of the proxy", download, nil},
	{"delete", "deletes of sealed items through REST against bare deletes of a row and an object", "at least 0.4 of the bare side; the runtime's CPU at most 0.5 ms, PostgreSQL's 0.7 ms", remove, nil},
	{"journal", "changes in an account with a journal against those in one without, the bytes of WAL of both, and pages of many events against pages of few", "at least 0.95 of the changes; p99 of a page at most 2 times", journals, nil},
	{"webhooks", "changes in an account with a webhook against those in one without, the bytes of WAL of both, and the time from an event to its receiver beside a receiver that hangs and has 100,000 events", "at least 0.95 of the changes; p99 of the time at most 1 s", webhooks, nil},
	{"gate", "uploads that are sealed at once in an account whose files clamd checks against those in one without a gate, and the time until the seal against a bare scan", "p99 of the time from the answer to the upload until the seal at most 300 ms", gates, nil},
	{"purge", "purged drafts per second, and the latency of requests meanwhile", "p99 of requests at most 1.5 times that of the idle service; nothing for the pace", purge, nil},
	{"eager", "pictures in advance per second, when a preset becomes eager and when it changes, and the latency of requests meanwhile", "p99 of requests at most 1.2 times that of the idle service; nothing for the pace", eager, nil},
	{"cold", "requests, the purge and the check with a database that is ten times larger than the memory of PostgreSQL against those with a small one", "p99 of uploads and seals, whose rows are new, at most 2 times; nothing for the others", cold, nil},
	{"operator", "the operator with many accounts: creation against a bare loop with the same writes, idle load, memory, restart, latency of changes", "creation at most 1.3 times the bare loop; idle no API writes, 5 statements, 20 S3 requests and 0.05 cores a second; 30 KiB an account; changes p99 within 2 s", operatorAccounts, countedStatements},
	{"operator-apps", "the same with few accounts of 51 apps, whose keys were rotated 24 times", "the same, but 60 KiB an account", operatorApps, countedStatements},
	{"resumable", "a large file through TUS against bare multipart uploads and tusd", "64 MiB at least 0.75 of bare multipart, both at least tusd", resumable, nil},
	{"memory", "peak memory with many uploads at once, of each kind", "at most 1.25 MiB for each of 100 KB, 10 or 7 MiB for larger ones; at most 400 MiB, for resumable uploads 150 MiB, with image workers 250 MiB", memory, nil},
	{"sizing", "the tables of docs/guides/sizing.md: processor time of each kind of request, with TLS too, and memory of uploads", "memory of an upload; otherwise nothing", sizing, nil},
}

func main() {
	ctrl.SetLogger(logr.Discard()) // what fails is returned, too
	runBaseline()
	var o options
	o.quiet, o.coldFactor = quietFor, largeFactor
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
	text.WriteString("Compare the service with baselines, as ratios inside one run.\n\nBenchmarks:\n")
	for _, one := range benchmarks {
		fmt.Fprintf(&text, "\n  %-13s %s\n  %-13s Aims: %s.\n", one.name, one.what, "", one.aims)
	}
	return text.String()
}

func (o options) validate() error {
	if min(o.Clients, o.Rounds, o.Items/smallItems, o.Active, o.Rate, o.DatabaseMemory, o.Calls, o.Photos, o.Deletes, o.Gated, o.Drafts, o.EagerItems, o.EagerRate, o.Pace, o.Uploads, o.Accounts) < 1 ||
		min(o.Length, o.Idle) <= 0 || o.UploadBytes < 1 || o.ResumableBytes < 4 || o.Creations < 0 || o.Megapixels <= 0 {
		return errors.New("all numbers must be positive, and items at least 1000")
	}
	_, err := o.chosen()
	return err
}

// chosen returns the named benchmarks, or all of them.
func (o options) chosen() ([]benchmark, error) {
	if len(o.Names) == 0 {
		return benchmarks, nil
	}
	var chosen []benchmark
	for _, name := range o.Names {
		at := slices.IndexFunc(benchmarks, func(one benchmark) bool { return one.name == name })
		if at < 0 {
			return nil, fmt.Errorf("there is no benchmark %q: see --help", name)
		}
		chosen = append(chosen, benchmarks[at])
	}
	return chosen, nil
}

// run runs the chosen benchmarks, each in an environment of its own. One that fails does not keep the
// others from running.
func run(ctx context.Context, o options, out *report) error {
	if err := o.validate(); err != nil {
		return err
	}
	chosen, err := o.chosen()
	if err != nil {
		return err
	}
	out.note("%d cores, %s; the runtime has no rate limits and logs at %s; %d rounds of each side after a warm-up round; medians",
		runtime.NumCPU(), runtime.Version(), o.LogLevel, o.Rounds)
	var failed []error
	for _, one := range chosen {
		started := time.Now()
		out.heading(one)
		if err := runOne(ctx, o, out, one); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", one.name, err))
			out.note("%s failed: %v", one.name, err)
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

func runOne(ctx context.Context, o options, out *report, one benchmark) error {
	env, err := startEnvironment(ctx, o, one.settings)
	if err != nil {
		return err
	}
	defer env.close()
	err = one.run(ctx, &bench{options: o, report: out, env: env, name: one.name})
	if err != nil && ctx.Err() == nil {
		out.note("%s", env.warnings())
	}
	return err
}

// bench is what a benchmark works with.
type bench struct {
	options
	*report
	env  *environment
	name string
}
