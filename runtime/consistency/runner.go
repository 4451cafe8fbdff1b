package consistency

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/google/uuid"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
)

// accountPage is the number of accounts that are read together.
const accountPage = 100

// Target selects the account to check, by its id or by the namespace and name of its
// MediaAccount, or all accounts.
type Target struct {
	all             bool
	id              uuid.UUID
	namespace, name string
}

// AllAccounts selects every open account.
var AllAccounts = Target{all: true}

// ParseTarget parses an account id or namespace/name.
func ParseTarget(text string) (Target, error) {
	if id, err := uuid.Parse(text); err == nil {
		return Target{id: id}, nil
	}
	namespace, name, found := strings.Cut(text, "/")
	if !found || namespace == "" || name == "" || strings.Contains(name, "/") {
		return Target{}, fmt.Errorf("the account must be an id or namespace/name, not %q", text)
	}
	return Target{namespace: namespace, name: name}, nil
}

// Report is the last line of a Runner's output.
type Report struct {
	Summary
	// Omitted counts findings that were not printed because the limit was reached.
	Omitted int64 `json:"omitted"`
	// Complete is false if the check was aborted by an error.
	Complete bool `json:"complete"`
}

// Runner checks the accounts of a target and prints findings and a report as lines of JSON.
type Runner struct {
	accounts AccountStore
	checker  *Checker
	limit    int
}

// NewRunner returns a Runner that prints up to limit findings; all are counted.
func NewRunner(accounts AccountStore, checker *Checker, limit int) *Runner {
	return &Runner{accounts: accounts, checker: checker, limit: limit}
}

// Run checks the target's accounts. It prints the report also when it returns an error.
func (r *Runner) Run(ctx context.Context, target Target, out io.Writer) (Report, error) {
	lines := json.NewEncoder(out)
	report := Report{Summary: Summary{Found: map[FindingKind]int64{}}}
	left := r.limit
	err := r.check(ctx, target, &report.Summary, func(f Finding) error {
		if left == 0 {
			report.Omitted++
			return nil
		}
		left--
		return lines.Encode(f)
	})
	report.Complete = err == nil
	if err := lines.Encode(report); err != nil {
		return report, fmt.Errorf("print the report: %w", err)
	}
	return report, err
}

func (r *Runner) check(ctx context.Context, target Target, summary *Summary, printFinding func(Finding) error) error {
	if !target.all {
		a, err := r.loadAccount(ctx, target)
		if err != nil {
			return err
		}
		return r.checker.Check(ctx, a, summary, printFinding)
	}
	var after uuid.UUID
	for {
		accounts, err := r.accounts.OpenAccountsAfter(ctx, after, accountPage)
		if err != nil {
			return err
		}
		for _, a := range accounts {
			if err := r.checker.Check(ctx, a, summary, printFinding); err != nil {
				return fmt.Errorf("account %s: %w", a.ID, err)
			}
			after = a.ID
		}
		if len(accounts) < accountPage {
			return nil
		}
	}
}

func (r *Runner) loadAccount(ctx context.Context, target Target) (a account.Account, err error) {
	text := target.id.String()
	if target.name != "" {
		text = target.namespace + "/" + target.name
		a, err = r.accounts.FindAccount(ctx, target.namespace, target.name)
	} else {
		a, err = r.accounts.AccountByID(ctx, target.id)
	}
	if fault.Is(err, fault.NotFound) {
		return a, fault.New(fault.NotFound, "account %s not found", text)
	}
	return a, err
}
