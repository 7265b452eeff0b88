-- Runs whose walk would hold the event loop of its process: each is walked alone, in a worker process.

ALTER TABLE dispatcher.runs ADD COLUMN slow boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN dispatcher.runs.slow IS 'its next walk is for the worker process';

-- Tenants take turns.
CREATE INDEX runs_slow ON dispatcher.runs (tenant_id, available_at) WHERE slow AND available_at IS NOT NULL;
