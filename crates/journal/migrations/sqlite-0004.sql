-- What the runs of one tree keep together, under their root.
CREATE TABLE pad (
    run INTEGER PRIMARY KEY,
    version INTEGER NOT NULL,
    body BLOB NOT NULL
);

CREATE INDEX run_child ON run (parent) WHERE parent IS NOT NULL;
