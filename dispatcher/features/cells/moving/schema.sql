-- Moves: tenants of this cell that are handed over to another one.
--
-- A move's life
--   copying     the tenant works here, and what no longer changes is copied
--   stopped     it stands still here (`leaving`), and what is under way comes to its end
--   switching   it is `elsewhere` here, and from now on only the other cell may open its doors: the move is finished there
--   cleaning    it works there, and what it had here is deleted
--   done
--   cancelling  it works here again, and what was copied is deleted there
--   cancelled
-- The row is written in the cell that the tenant leaves, `switching` in the transaction that places it elsewhere.

CREATE TABLE dispatcher.tenant_moves (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    started_at  timestamptz NOT NULL DEFAULT statement_timestamp(),
    stopped_at  timestamptz,
    opened_at   timestamptz,
    finished_at timestamptz,
    target      smallint NOT NULL,
    tenant_id   text NOT NULL,
    phase       text NOT NULL DEFAULT 'copying',
    actor       text NOT NULL CHECK (actor <> ''),
    reason      text NOT NULL,
    error       text,
    rows        jsonb NOT NULL DEFAULT '{}',
    CONSTRAINT tenant_moves_phase_known
        CHECK (phase IN ('copying', 'stopped', 'switching', 'cleaning', 'done', 'cancelling', 'cancelled')),
    CONSTRAINT tenant_moves_end_has_time CHECK ((phase IN ('done', 'cancelled')) = (finished_at IS NOT NULL))
);
COMMENT ON COLUMN dispatcher.tenant_moves.stopped_at IS 'since when it stands still here';
COMMENT ON COLUMN dispatcher.tenant_moves.opened_at IS 'since when it works there';
COMMENT ON COLUMN dispatcher.tenant_moves.error IS 'why it was interrupted last';
COMMENT ON COLUMN dispatcher.tenant_moves.rows IS 'how many rows the tenant has there, by table';
CREATE UNIQUE INDEX tenant_moves_open ON dispatcher.tenant_moves (tenant_id) WHERE finished_at IS NULL;
