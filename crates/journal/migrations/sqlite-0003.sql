-- Who looks at a tree of runs sees no other.
CREATE INDEX run_root ON run (root, id) WHERE root IS NOT NULL;
