package api

import (
	"github.com/google/uuid"

	"mediastack.dev/runtime/fetch"
)

// NewURLUpload returns the document of an upload from a URL, which is the same by REST and MCP.
func NewURLUpload(job fetch.Job) URLUpload {
	document := URLUpload{JobId: job.ID, State: URLUploadState(job.State), Bytes: job.Bytes, CreatedAt: timestamp(job.CreatedAt)}
	if job.Total > 0 {
		document.Total = new(job.Total)
	}
	if job.MediaID != uuid.Nil {
		document.MediaId = new(job.MediaID)
	}
	if job.State == fetch.Failed {
		document.Error = &URLUploadError{Code: string(job.Failure.Code), Detail: job.Failure.Text}
	}
	if job.EndedAt != nil {
		document.EndedAt = new(timestamp(*job.EndedAt))
	}
	return document
}
