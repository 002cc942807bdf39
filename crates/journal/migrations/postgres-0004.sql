-- What the runs of one tree keep together, under their root. A program that does not know of it drops
-- it with the run.
CREATE TABLE pad (
    run uuid PRIMARY KEY REFERENCES run ON DELETE CASCADE,
    version bigint NOT NULL,
    body bytea NOT NULL
);

CREATE INDEX run_child ON run (parent) WHERE parent IS NOT NULL;
