package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/google/uuid"

	"mediastack.dev/runtime/gate"
	"mediastack.dev/runtime/postgres"
)

// quarantineCommand has the commands of files in which a scanner has found something. `kubectl mediastack quarantine` runs them here.
type quarantineCommand struct {
	List    quarantineListCommand    `cmd:"" help:"List the files in quarantine, the latest first."`
	Release quarantineReleaseCommand `cmd:"" help:"Make the draft again that a file was, and seal it if that was wanted: the finding was wrong."`
	Delete  quarantineDeleteCommand  `cmd:"" help:"Delete a file in quarantine."`
}

// quarantineStore opens the store of the commands.
func quarantineStore(ctx context.Context, config postgres.Config) (store gate.QuarantineStore, closeStore func(), err error) {
	database, err := postgres.Open(ctx, config)
	if err != nil {
		return nil, nil, err
	}
	return database.Gates, database.Close, nil
}

// quarantineListCommand lists files in quarantine.
type quarantineListCommand struct {
	Database  postgres.Config `embed:""`
	Namespace string          `help:"Namespace of the accounts; all if empty."`
	Output    string          `short:"o" enum:"table,json" default:"table" help:"Format: table, or json, an object in each line."`
}

// quarantinedFile is the JSON form of a file in quarantine.
type quarantinedFile struct {
	MediaID   uuid.UUID `json:"mediaId"`
	Namespace string    `json:"namespace"`
	Account   string    `json:"account"`
	App       string    `json:"app"`
	FileName  string    `json:"originalFileName"`
	Bytes     int64     `json:"bytes"`
	Finding   string    `json:"finding"`
	Time      time.Time `json:"time"`
}

// Run prints the list.
func (c *quarantineListCommand) Run(ctx context.Context, _ common, out io.Writer) error {
	store, closeStore, err := quarantineStore(ctx, c.Database)
	if err != nil {
		return err
	}
	defer closeStore()
	if c.Output == "json" {
		encoder := json.NewEncoder(out)
		return store.EachQuarantined(ctx, c.Namespace, func(f gate.Quarantined) error {
			return encoder.Encode(quarantinedFile{f.ItemID, f.Namespace, f.Name, f.App, f.FileName, f.Bytes, f.Finding, f.At.UTC()})
		})
	}
	table, listed := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0), 0
	err = store.EachQuarantined(ctx, c.Namespace, func(f gate.Quarantined) error {
		if listed++; listed == 1 {
			_, _ = fmt.Fprintln(table, "MEDIA ID\tNAMESPACE\tACCOUNT\tAPP\tTIME\tBYTES\tFINDING\tFILE")
		}
		_, err := fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%d\t%s\t%s\n", f.ItemID, f.Namespace, f.Name, f.App, f.At.UTC().Format(time.RFC3339), f.Bytes, f.Finding, oneLine(f.FileName))
		return err
	})
	if err == nil && listed == 0 {
		_, err = fmt.Fprintln(out, "no files in quarantine")
	}
	if err != nil {
		return err
	}
	return table.Flush()
}

// oneLine returns a text that a tenant chose, without what would change the terminal or the table.
func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsGraphic(r) || r == '\t' {
			return '?'
		}
		return r
	}, text)
}

// quarantineReleaseCommand takes a file out of the quarantine.
type quarantineReleaseCommand struct {
	Database postgres.Config `embed:""`
	MediaID  uuid.UUID       `arg:"" name:"media-id" help:"Id of the item, as the command list shows it."`
}

// Run makes the draft again.
func (c *quarantineReleaseCommand) Run(ctx context.Context, _ common, out io.Writer) error {
	store, closeStore, err := quarantineStore(ctx, c.Database)
	if err != nil {
		return err
	}
	defer closeStore()
	sealed, err := store.Release(ctx, c.MediaID, time.Now())
	if err != nil {
		return err
	}
	state := "a draft, which is purged unless it is sealed"
	if sealed {
		state = "sealed, as its upload wanted"
	}
	_, err = fmt.Fprintf(out, "%s is %s.\n", c.MediaID, state)
	return err
}

// quarantineDeleteCommand deletes a file in quarantine.
type quarantineDeleteCommand struct {
	Database postgres.Config `embed:""`
	MediaID  uuid.UUID       `arg:"" name:"media-id" help:"Id of the item, as the command list shows it."`
}

// Run deletes the file.
func (c *quarantineDeleteCommand) Run(ctx context.Context, _ common, out io.Writer) error {
	store, closeStore, err := quarantineStore(ctx, c.Database)
	if err != nil {
		return err
	}
	defer closeStore()
	if err := store.Delete(ctx, c.MediaID); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s is deleted.\n", c.MediaID)
	return err
}
