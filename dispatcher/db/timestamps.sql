-- name: now
-- The time at which this statement began.
SELECT statement_timestamp();
