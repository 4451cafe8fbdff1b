package postgres

import (
	"context"
	"time"

	"mediastack.dev/runtime/media"
)

// HoldBatches calls hold before each batch, with the number of its uploads. No batch is late.
func HoldBatches(s *Store, hold func(batch string, uploads int)) {
	openUploads, commitUploads := s.openBatch.exec, s.commitBatch.exec
	s.openBatch.lateAfter, s.commitBatch.lateAfter = time.Hour, time.Hour
	s.openBatch.exec = func(ctx context.Context, lockTimeout time.Duration, requests []openRequest) ([]bool, error) {
		hold("open", len(requests))
		return openUploads(ctx, lockTimeout, requests)
	}
	s.commitBatch.exec = func(ctx context.Context, lockTimeout time.Duration, items []media.Item) ([]bool, error) {
		hold("commit", len(items))
		return commitUploads(ctx, lockTimeout, items)
	}
}

// ListStatement is listStatement, for tests that explain it.
var ListStatement = listStatement

// BatchPause is batchPause.
func BatchPause(s *Store, took time.Duration) time.Duration { return s.batchPause(took) }
