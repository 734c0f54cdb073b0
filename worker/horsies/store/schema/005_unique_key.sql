-- at most one live task per key, run once by upgrade.py

ALTER TABLE horsies_tasks ADD COLUMN IF NOT EXISTS unique_key varchar(255);

-- Only live rows: the key is free again as soon as its task is final. A task without a key is in no entry of it, so the
-- three updates in its life do not pay for this index.
CREATE UNIQUE INDEX IF NOT EXISTS uq_horsies_tasks_unique_key
    ON horsies_tasks (unique_key)
    WHERE unique_key IS NOT NULL AND status IN ('PENDING', 'CLAIMED', 'RUNNING');
