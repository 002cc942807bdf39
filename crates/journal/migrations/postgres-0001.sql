-- `at` and `last_at` are the run's own time, in microseconds since the Unix epoch. All other times
-- are the server's: no clock of a client enters a condition.
CREATE TABLE worker (
    incarnation uuid PRIMARY KEY,
    name text NOT NULL UNIQUE,
    host text NOT NULL,
    ttl interval NOT NULL,
    lease_until timestamptz NOT NULL
);

-- Appends change no indexed column, and half of each page is free for the new versions of its rows.
CREATE TABLE run (
    id uuid PRIMARY KEY,
    client_key text UNIQUE,
    parent uuid,
    code_version text NOT NULL,
    config bytea,
    state smallint NOT NULL,
    reason text,
    ready_at timestamptz NOT NULL,
    ended_at timestamptz,
    head bigint NOT NULL,
    last_at bigint NOT NULL,
    written_at timestamptz NOT NULL,
    epoch bigint NOT NULL,
    token uuid,
    -- A worker that still owns runs cannot be forgotten.
    owner uuid REFERENCES worker,
    owner_name text,
    claim_id uuid,
    attempts integer NOT NULL DEFAULT 0
) WITH (fillfactor = 50);
CREATE INDEX run_ready ON run (ready_at) WHERE state = 0;
CREATE INDEX run_owned ON run (owner) WHERE owner IS NOT NULL;
CREATE INDEX run_ended ON run (ended_at) WHERE ended_at IS NOT NULL;

CREATE TABLE event (
    run uuid NOT NULL,
    seq bigint NOT NULL,
    epoch bigint NOT NULL,
    kind text NOT NULL,
    v smallint NOT NULL,
    at bigint NOT NULL,
    written_at timestamptz NOT NULL,
    append_id uuid NOT NULL,
    body bytea NOT NULL,
    PRIMARY KEY (run, seq)
);
ALTER TABLE event ALTER COLUMN body SET STORAGE EXTERNAL;

CREATE TABLE snapshot (
    run uuid NOT NULL,
    seq bigint NOT NULL,
    fold_version integer NOT NULL,
    body bytea NOT NULL,
    PRIMARY KEY (run, seq)
);

CREATE TABLE letter (
    run uuid NOT NULL,
    id text NOT NULL,
    n bigint GENERATED ALWAYS AS IDENTITY,
    body bytea NOT NULL,
    taken_at_seq bigint,
    PRIMARY KEY (run, id)
);

CREATE TABLE late_result (
    run uuid NOT NULL,
    turn bigint NOT NULL,
    place bigint NOT NULL,
    epoch bigint NOT NULL,
    body bytea NOT NULL,
    PRIMARY KEY (run, turn, place, epoch)
);

CREATE TABLE blob (
    hash bytea PRIMARY KEY,
    body bytea NOT NULL
);
ALTER TABLE blob ALTER COLUMN body SET STORAGE EXTERNAL;

-- The reference keeps a blob from being dropped while another run begins to use it.
CREATE TABLE blob_of_run (
    run uuid NOT NULL,
    hash bytea NOT NULL REFERENCES blob,
    PRIMARY KEY (run, hash)
);
CREATE INDEX blob_used ON blob_of_run (hash);
