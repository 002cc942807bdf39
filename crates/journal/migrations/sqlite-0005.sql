-- Dependencies that take no calls, so that a worker that starts does not find out once more.
CREATE TABLE outage (
    dependency TEXT PRIMARY KEY,
    until INTEGER NOT NULL
) WITHOUT ROWID;
