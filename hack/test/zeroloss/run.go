package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"time"

	"github.com/prometheus/procfs"

	"mediastack.dev/hack/servers"
	"mediastack.dev/hack/test/zeroloss/tenant"
)

type runCommand struct {
	Rate        float64       `default:"50" help:"Requests per second of all clients together, without retries."`
	MinDuration time.Duration `default:"15s" help:"How long an operation is watched at least."`
	Only        string        `help:"Regular expression: only operations with such a name."`
	Out         string        `type:"path" help:"File that the table is written to, too."`
	Dir         string        `hidden:"" help:"Directory for the data of the stores; a temporary one by default."`
}

// Run does the operations one after the other, and fails if a promise is broken.
func (c *runCommand) Run(ctx context.Context) error {
	only, err := regexp.Compile(c.Only)
	if err != nil {
		return fmt.Errorf("--only: %w", err)
	}
	if c.Rate <= 0 {
		return errors.New("--rate must be positive")
	}
	k, err := findCluster()
	if err != nil {
		return err
	}
	parsed, err := url.Parse(k.DatabaseURL)
	if err != nil {
		return err
	}
	dir, err := servers.MakeDataDir(c.Dir, "mediastack-zeroloss-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	s, err := startStores(ctx, dir, parsed.Hostname())
	defer s.close()
	if err != nil {
		return err
	}
	i, err := install(ctx, k, s)
	if err != nil {
		return err
	}
	if err := i.startClients(ctx, c.Rate); err != nil {
		return err
	}
	report := &report{rate: c.Rate, begun: time.Now()}
	err = c.operate(ctx, i, only, report)
	if err == nil {
		err = i.conclude(ctx, report)
	}
	return errors.Join(err, c.print(report), report.decision())
}

// operate does the operations that are selected.
func (c *runCommand) operate(ctx context.Context, i *installation, only *regexp.Regexp, report *report) error {
	for _, o := range operations {
		if !only.MatchString(o.name) {
			continue
		}
		if err := c.watch(ctx, i, o, report); err != nil {
			return fmt.Errorf("%s: %w", o.name, err)
		}
	}
	return nil
}

func (c *runCommand) print(report *report) error {
	out := io.Writer(os.Stdout)
	if c.Out != "" {
		file, err := os.Create(filepath.Clean(c.Out))
		if err != nil {
			return err
		}
		defer file.Close()
		out = io.MultiWriter(out, file)
	}
	report.write(out)
	return nil
}

// watch does one operation under load, until the product is whole again.
func (c *runCommand) watch(ctx context.Context, i *installation, o operation, report *report) error {
	if o.prepare != nil {
		if err := o.prepare(i, ctx); err != nil {
			return err
		}
	}
	i.lost = nil
	between, err := i.ask(ctx, tenant.PathNext)
	if err != nil {
		return err
	}
	report.between(between)
	begun := time.Now()
	least := time.After(c.MinDuration)
	if err := o.do(i, ctx); err != nil {
		return err
	}
	if err := settle(ctx); err != nil {
		return err
	}
	took := time.Since(begun)
	select {
	case <-least:
	case <-ctx.Done():
		return ctx.Err()
	}
	result, err := i.ask(ctx, tenant.PathFinish)
	if err != nil {
		return err
	}
	report.add(row{name: o.name, planned: o.planned, took: took, within: o.within, lost: i.lost, Result: result})
	i.lost = nil
	return nil
}

// conclude ends the load, compares everything, and has the product check itself.
func (i *installation) conclude(ctx context.Context, report *report) error {
	result, err := i.ask(ctx, tenant.PathEnd)
	if err != nil {
		return err
	}
	report.conclude(result)
	for node := range i.Nodes {
		output, err := run(ctx, "", "env",
			"SERVICE_DATABASE_URL="+i.databaseURL(), "SERVICE_SECRET="+i.secret, "SERVICE_BASE_URL="+baseURL, "SERVICE_S3_ENDPOINT=http://"+i.toS3.String(),
			"SERVICE_S3_ACCESS_KEY="+i.s3.Access.AccessKey, "SERVICE_S3_SECRET_KEY="+i.s3.Access.SecretKey,
			i.runtime, "check", "--account", tenants+"/"+node)
		if err != nil {
			report.problems = append(report.problems, fmt.Sprintf("the consistency check of %s: %v", node, err))
		} else {
			fmt.Fprintln(os.Stderr, "consistency check of", node+":", output)
		}
	}
	return nil
}

// machine names the processor count for the table, and how busy the machine was, with everything else on it.
func machine() string {
	text := fmt.Sprintf("%d cores, %s/%s", runtime.NumCPU(), runtime.GOOS, runtime.GOARCH)
	if fs, err := procfs.NewDefaultFS(); err == nil {
		if load, err := fs.LoadAvg(); err == nil {
			text += fmt.Sprintf(", load average %.1f over the last 15 minutes", load.Load15)
		}
	}
	return text
}
