-- Times are microseconds since the Unix epoch. `at` and `last_at` are the run's own time.
CREATE TABLE worker (
    incarnation TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    host TEXT NOT NULL
) WITHOUT ROWID;

CREATE TABLE run (
    n INTEGER PRIMARY KEY,
    id BLOB NOT NULL UNIQUE,
    client_key TEXT UNIQUE,
    parent BLOB,
    code_version TEXT NOT NULL,
    config BLOB,
    state INTEGER NOT NULL,
    reason TEXT,
    ready_at INTEGER NOT NULL,
    head INTEGER NOT NULL,
    last_at INTEGER NOT NULL,
    written_at INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    token BLOB,
    owner TEXT,
    owner_name TEXT,
    attempts INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX run_ready ON run (ready_at) WHERE state = 0;
CREATE INDEX run_owned ON run (owner) WHERE owner IS NOT NULL;
CREATE INDEX run_ended ON run (written_at) WHERE state = 4;

CREATE TABLE event (
    run INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    kind TEXT NOT NULL,
    v INTEGER NOT NULL,
    at INTEGER NOT NULL,
    written_at INTEGER NOT NULL,
    body BLOB NOT NULL,
    UNIQUE (run, seq)
);

CREATE TABLE snapshot (
    run INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    fold_version INTEGER NOT NULL,
    body BLOB NOT NULL,
    UNIQUE (run, seq)
);

CREATE TABLE letter (
    run INTEGER NOT NULL,
    id TEXT NOT NULL,
    body BLOB NOT NULL,
    taken_at_seq INTEGER,
    UNIQUE (run, id)
);

CREATE TABLE late_result (
    run INTEGER NOT NULL,
    turn INTEGER NOT NULL,
    place INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    body BLOB NOT NULL,
    UNIQUE (run, turn, place, epoch)
);

CREATE TABLE blob (
    hash BLOB PRIMARY KEY,
    body BLOB NOT NULL
);

CREATE TABLE blob_of_run (
    run INTEGER NOT NULL,
    hash BLOB NOT NULL,
    PRIMARY KEY (run, hash)
) WITHOUT ROWID;
CREATE INDEX blob_used ON blob_of_run (hash);
