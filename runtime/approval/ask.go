package approval

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/settings"
)

// Deps are the dependencies of a Service.
type Deps struct {
	Store    Store
	Media    *media.Service
	Settings *settings.Service
	// NewID returns the ids of approvals and steps.
	NewID func() (uuid.UUID, error)
	// Ready returns an error while nothing may be carried out; nil = it always may.
	Ready func() error
	// Queued is called after a task was added; nil = it is found later.
	Queued func()
	// Emails is set if the owners are told by e-mail that something waits, and EmailQueued is called after a task was added; nil = it is found later.
	Emails      bool
	EmailQueued func()
	Log         *slog.Logger
	// Registry is where the metrics are registered; nil = nowhere.
	Registry prometheus.Registerer
}

// Service records requests and decisions, and carries out what was allowed. It is safe for concurrent use.
type Service struct {
	deps    Deps
	metrics metrics
}

// New returns a Service that uses deps. It fails if metrics of the same names are registered.
func New(deps Deps) (*Service, error) {
	metrics, err := newMetrics(deps.Registry)
	if err != nil {
		return nil, err
	}
	return &Service{deps: deps, metrics: metrics}, nil
}

// change is media.Change as it is stored: a field is never renamed.
type change struct {
	FileName        *string            `json:"fileName,omitempty"`
	Access          *media.Access      `json:"access,omitempty"`
	Caption         *string            `json:"caption,omitempty"`
	Group           *string            `json:"group,omitempty"`
	Metadata        map[string]*string `json:"metadata,omitempty"`
	ReplaceMetadata bool               `json:"replaceMetadata,omitempty"`
	Focus           *media.FocusPoint  `json:"focus,omitempty"`
	SetFocus        bool               `json:"setFocus,omitempty"`
}

// argumentsOf returns the arguments of a request, as a step has them.
func argumentsOf(request Request) (string, error) {
	var stored any = struct{}{}
	switch request.Operation { //nolint:exhaustive // the others have the item alone
	case account.UpdateMedia:
		stored = change(request.Change)
	case account.UpdateMediaSettings:
		stored = request.Settings
	}
	text, err := json.Marshal(stored)
	return string(text), err
}

// digestOf returns what stands for a step: two of one digest are the same change of the same version of an item.
func digestOf(step Step) []byte {
	sum := sha256.New()
	for _, part := range []string{string(step.Operation), step.Arguments, step.ItemID.String()} {
		_ = binary.Write(sum, binary.BigEndian, uint64(len(part)))
		_, _ = sum.Write([]byte(part))
	}
	_ = binary.Write(sum, binary.BigEndian, step.Version)
	return sum.Sum(nil)
}

// Ask records what a connection wants to do, and returns the approval that waits for it. Nothing is changed.
func (s *Service) Ask(ctx context.Context, caller Caller, request Request) (Approval, error) {
	if caller.Guard == nil {
		return Approval{}, fault.New(fault.Internal, "only a connection asks")
	}
	arguments, err := argumentsOf(request)
	if err != nil {
		return Approval{}, fmt.Errorf("encode a request: %w", err)
	}
	id, err := s.deps.NewID()
	if err != nil {
		return Approval{}, err
	}
	asked := Asked{ID: id, AccountID: caller.Account.ID, AppID: caller.App.ID, Connection: caller.Guard.Connection, GrantID: caller.GrantID, KeyID: caller.Key.ID, Actor: caller.Actor, TTL: TTL, Email: s.deps.Emails}
	if asked.Steps, err = s.stepsOf(ctx, caller, request, arguments); err != nil {
		return Approval{}, err
	}
	if id, err = s.deps.Store.Ask(ctx, asked); err != nil {
		return Approval{}, err
	}
	s.metrics.requests.WithLabelValues(outcomeAsked).Inc()
	if asked.Email && s.deps.EmailQueued != nil {
		s.deps.EmailQueued()
	}
	return s.deps.Store.Approval(ctx, id)
}

// stepsOf returns the steps of a request.
func (s *Service) stepsOf(ctx context.Context, caller Caller, request Request, arguments string) ([]Step, error) {
	if request.Operation == account.UpdateMediaSettings {
		state, err := s.deps.Settings.State(ctx, caller.Account.ID)
		if err != nil {
			return nil, err
		}
		return s.identified([]Step{{Operation: request.Operation, Arguments: arguments, Version: state.Version}})
	}
	steps := make([]Step, 0, len(request.Items))
	for _, item := range request.Items {
		version, bytes, deleted, err := s.deps.Store.ItemToApprove(ctx, media.ScopeOf(caller.Principal), item)
		if err != nil {
			return nil, err
		}
		if deleted != (request.Operation == account.RestoreMedia) {
			return nil, media.ErrItemNotFound
		}
		steps = append(steps, Step{Operation: request.Operation, Arguments: arguments, ItemID: item, Version: version, Bytes: bytes})
	}
	return s.identified(steps)
}

func (s *Service) identified(steps []Step) ([]Step, error) {
	for i := range steps {
		id, err := s.deps.NewID()
		if err != nil {
			return nil, err
		}
		steps[i].ID, steps[i].Digest = id, digestOf(steps[i])
	}
	return steps, nil
}

// OfConnection returns an approval that the connection has asked for; ErrNotFound. After it says that a change is made, no process serves from a
// cache what was before.
func (s *Service) OfConnection(ctx context.Context, p account.Principal, id uuid.UUID) (Approval, error) {
	found, err := s.deps.Store.Approval(ctx, id)
	if err == nil && (p.Guard == nil || found.AccountID != p.Account.ID || found.Connection != p.Guard.Connection) {
		return Approval{}, ErrNotFound
	}
	// A step is done with its change. Who carries it out waits for the caches, but who reads the step may come before.
	if err == nil && slices.ContainsFunc(found.Steps, func(step Step) bool { return step.State == StepDone }) {
		err = s.deps.Store.AwaitItemCaches(ctx)
	}
	return found, err
}

// Find returns an approval. The caller checks whose it is.
func (s *Service) Find(ctx context.Context, id uuid.UUID) (Approval, error) {
	return s.deps.Store.Approval(ctx, id)
}

// Waiting returns the oldest approvals that wait for the owners of an account, at most so many, without their steps.
func (s *Service) Waiting(ctx context.Context, accountID uuid.UUID, most int) ([]Approval, error) {
	return s.deps.Store.Waiting(ctx, accountID, most)
}

// Open records that an owner sees the approval: nothing is added to it anymore.
func (s *Service) Open(ctx context.Context, id uuid.UUID) error { return s.deps.Store.Opened(ctx, id) }

// Decide records what an owner has decided. With a yes, the changes are carried out soon.
func (s *Service) Decide(ctx context.Context, decision Decision) error {
	if err := s.deps.Store.Decide(ctx, decision); err != nil {
		return err
	}
	outcome := outcomeDenied
	if decision.Allow {
		outcome = outcomeAllowed
	}
	s.metrics.requests.WithLabelValues(outcome).Inc()
	if decision.Allow && s.deps.Queued != nil {
		s.deps.Queued()
	}
	return nil
}

// PurgeStore is what the purge does. PostgreSQL implements it.
type PurgeStore interface {
	// EndExpiredApprovals records of up to batch approvals that nobody has decided until now.
	EndExpiredApprovals(ctx context.Context, now time.Time, batch int) (int, error)
	// ExpireApprovals deletes up to batch approvals that have expired before cutoff.
	ExpireApprovals(ctx context.Context, cutoff time.Time, batch int) (int, error)
}

// Summary returns what is asked for in words, with the size of the originals: "delete 3 files (12 MiB)".
func (a Approval) Summary() string {
	var parts []string
	for _, kind := range summaries {
		n, bytes := 0, int64(0)
		for _, step := range a.Steps {
			if step.Operation == kind.operation {
				n++
				bytes += step.Bytes
			}
		}
		switch {
		case n == 0:
		case kind.operation == account.UpdateMediaSettings:
			parts = append(parts, kind.words)
		case n == 1:
			parts = append(parts, fmt.Sprintf("%s 1 file (%s)", kind.words, media.HumanBytes(bytes)))
		default:
			parts = append(parts, fmt.Sprintf("%s %d files (%s)", kind.words, n, media.HumanBytes(bytes)))
		}
	}
	return strings.Join(parts, ", ")
}

// Words returns what an operation that waits does, in words; ok is false for another one.
func Words(operation account.Operation) (words string, ok bool) {
	for _, kind := range summaries {
		if kind.operation == operation {
			return kind.words, true
		}
	}
	return "", false
}

// summaries are the words of the operations that wait.
var summaries = []struct {
	operation account.Operation
	words     string
}{
	{account.DeleteMedia, "delete"}, {account.UpdateMedia, "make public"}, {account.SealMedia, "publish"}, {account.RestoreMedia, "restore as public"},
	{account.UpdateMediaSettings, "change the media settings"},
}
