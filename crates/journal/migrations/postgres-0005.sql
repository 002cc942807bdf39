-- Dependencies that take no calls, so that a worker that starts does not find out once more.
CREATE TABLE outage (
    dependency text PRIMARY KEY,
    until timestamptz NOT NULL
);
