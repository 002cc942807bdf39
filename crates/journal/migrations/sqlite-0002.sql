ALTER TABLE run ADD COLUMN agent TEXT NOT NULL DEFAULT '';
ALTER TABLE run ADD COLUMN root BLOB;

-- The blob that holds the body, where the body is large; it is one of the run's blobs.
ALTER TABLE event ADD COLUMN body_hash BLOB;

-- Who looks for work while it is full sees no run without a parent; who looks for news, no letter
-- that was taken in.
CREATE INDEX run_ready_child ON run (ready_at) WHERE state = 0 AND parent IS NOT NULL;
CREATE INDEX letter_unread ON letter (run) WHERE taken_at_seq IS NULL;
