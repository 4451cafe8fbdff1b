-- Uploads from a URL (docs/decisions/0030). Every statement can be repeated.

-- +goose Up

-- The foreign key locks app for a moment; waiting for it must not stop all requests.
SET LOCAL lock_timeout = '10s';

-- A job of package fetch. A running one belongs to a process: when the lease of the process has ended,
-- another one takes the job over. item_id is the id of the draft of the latest attempt. Every change of
-- a running job names it, so that a process that has lost the job changes nothing.
CREATE TABLE IF NOT EXISTS fetch_job (
    id          uuid PRIMARY KEY,
    account_id  uuid NOT NULL,
    app_id      uuid NOT NULL,
    -- The credential: the job ends with it. There is no foreign key, because a key may be purged.
    key_id      uuid NOT NULL,
    grant_id    uuid,
    url         text NOT NULL, -- empty once the job has ended: it may hold a token
    file_name   text NOT NULL,
    access      text NOT NULL CHECK (access IN ('public', 'private')),
    caption     text NOT NULL,
    group_label text NOT NULL,
    metadata    jsonb NOT NULL,
    seal        boolean NOT NULL,
    state       text NOT NULL DEFAULT 'queued' CHECK (state IN ('queued', 'running', 'done', 'failed')),
    attempts    integer NOT NULL DEFAULT 0 CHECK (attempts >= 0),
    not_before  timestamptz NOT NULL DEFAULT now(),
    instance_id uuid CHECK ((instance_id IS NOT NULL) = (state = 'running')),
    item_id     uuid,
    bytes       bigint NOT NULL DEFAULT 0, -- received
    total       bigint NOT NULL DEFAULT 0, -- as the server announced; 0 = unknown
    error_code  text NOT NULL DEFAULT '',
    error_text  text NOT NULL DEFAULT '',
    created_at  timestamptz NOT NULL,
    ended_at    timestamptz CHECK ((ended_at IS NOT NULL) = (state IN ('done', 'failed'))),
    FOREIGN KEY (app_id, account_id) REFERENCES app (id, account_id) ON DELETE CASCADE
);
CREATE INDEX IF NOT EXISTS fetch_job_app ON fetch_job (app_id);
CREATE INDEX IF NOT EXISTS fetch_job_open ON fetch_job (account_id, state) WHERE ended_at IS NULL;
CREATE INDEX IF NOT EXISTS fetch_job_due ON fetch_job (not_before, id) WHERE ended_at IS NULL;
CREATE INDEX IF NOT EXISTS fetch_job_ended ON fetch_job (ended_at) WHERE ended_at IS NOT NULL;
