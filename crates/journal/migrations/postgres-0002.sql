ALTER TABLE run ADD COLUMN agent text NOT NULL DEFAULT '', ADD COLUMN root uuid;

-- The blob that holds the body, where the body is large; it is one of the run's blobs.
ALTER TABLE event ADD COLUMN body_hash bytea;

-- Who looks for work while it is full sees no run without a parent; who looks for news, no letter
-- that was taken in.
CREATE INDEX run_ready_child ON run (ready_at) WHERE state = 0 AND parent IS NOT NULL;
CREATE INDEX letter_unread ON letter (run, n) WHERE taken_at_seq IS NULL;

-- A fiftieth of dead rows is enough to give their space to new ones; by default a fifth waits for it.
ALTER TABLE event SET (autovacuum_vacuum_scale_factor = 0.02);
ALTER TABLE run SET (autovacuum_vacuum_scale_factor = 0.02);
