// Command bench measures the service against the raw limit: the same bytes, to the
// same store, in the same run, through REST and through bare minio-go. It starts its
// own PostgreSQL (which syncs to disk, as in production), S3 store and runtime, takes
// the two sides in turn so that a machine whose speed drifts does not favour either,
// and prints medians and ratios. `make bench` runs it.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
)

type options struct {
	Clients int           `help:"Uploads in flight." default:"16"`
	Rounds  int           `help:"Times that each side is measured." default:"5"`
	Length  time.Duration `help:"How long one side uploads in one round." default:"4s"`
	Dir     string        `help:"Folder for the data; a temporary one by default." type:"path"`
}

func main() {
	var o options
	kong.Parse(&o, kong.Name("bench"), kong.Description("Compare uploads through REST with bare S3 puts of the same bytes."))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	if o.Clients < 1 || o.Rounds < 1 || o.Length <= 0 {
		return fmt.Errorf("clients, rounds and length must be positive")
	}
	rig, err := startRig(ctx, o.Dir)
	if err != nil {
		return err
	}
	defer rig.close()
	fmt.Printf("%d clients, %d rounds of %s for each side; medians\n", o.Clients, o.Rounds, o.Length)
	fmt.Printf("%-10s %14s %14s %8s %8s %8s %16s\n", "file", "REST", "minio-go", "ratio", "min", "max", "runtime's peak")
	for _, size := range []struct {
		name  string
		bytes int
	}{{"100 KB", 100_000}, {"10 MB", 10_000_000}} {
		r, err := rig.compare(ctx, o, size.bytes)
		if err != nil {
			return fmt.Errorf("%s: %w", size.name, err)
		}
		peak, err := rig.peakMemory()
		if err != nil {
			return err
		}
		fmt.Printf("%-10s %12.1f/s %12.1f/s %8.2f %8.2f %8.2f %12.0f MiB\n",
			size.name, median(r.rest), median(r.bare), median(r.ratios), slices.Min(r.ratios), slices.Max(r.ratios), peak)
	}
	fmt.Println("ratio: files a second through REST by files a second through bare PutObject, pair by pair; 1.00 is the raw limit")
	return nil
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}
