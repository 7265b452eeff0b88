-- name: mark
-- The licence to call a provider: durable before it returns, fenced by our instance row, and testing nothing but
-- columns of the state row (a joined table would keep its old version where the mark had to wait). They are compared
-- with columns of what is asked, not with constants: where statistics say that hardly any row is `queued`, a constant
-- makes the planner start from those, and read the whole index for each mark (80 ms against 3 at 20,000 rows). The id is
-- compared from both sides, which can be looked up in the index and cannot be merged: with `s.id = asked.id` a session that
-- plans while statistics say that the table is empty keeps a plan that reads the whole index, and with 100,000 rows marks
-- for seconds. (An array of one id does the same for 0.2 microseconds more a row.)
-- An unknown attempt is repeated at its own provider only: no other knows its key.
WITH me AS MATERIALIZED (
    SELECT set_config('synchronous_commit', 'on', true) FROM dispatcher.instances WHERE epoch = $1 FOR KEY SHARE
)
UPDATE dispatcher.delivery_state s
   SET marked = true, attempt = s.attempt + 1, key_used_at = coalesce(s.key_used_at, statement_timestamp()),
       provider = asked.provider, passed = false
  FROM me, (SELECT id, token, $4::text AS provider, false AS marked, 'queued' AS status
              FROM unnest($2::bigint[], $3::bigint[]) AS r (id, token) OFFSET 0) AS asked
 WHERE s.id >= asked.id AND s.id <= asked.id AND s.token = asked.token AND s.marked = asked.marked AND s.status = asked.status
   AND (s.expires_at IS NULL OR s.expires_at > statement_timestamp())
   AND (s.resend_until IS NULL OR s.resend_until > statement_timestamp() AND s.provider = asked.provider)
RETURNING s.id, s.attempt;

-- name: asked_each
-- What a mark asks for where each has a provider of its own: a column more costs 0.2 microseconds a row.
SELECT id, token, provider, false AS marked, 'queued' AS status
              FROM unnest($2::bigint[], $3::bigint[], $4::text[]) AS r (id, token, provider) OFFSET 0;

-- name: settle_unmarked
-- What the mark for the providers $3 (that of each, or the one of all) left out and is still ours: expired (held where an
-- attempt is unknown, as any such end), or its provider has forgotten the key of an unknown attempt, or that attempt was
-- another provider's.
UPDATE dispatcher.delivery_state s
   SET status = CASE WHEN s.expires_at <= statement_timestamp() THEN 'skipped' ELSE 'queued' END,
       finished_at = CASE WHEN s.expires_at <= statement_timestamp() THEN statement_timestamp() END,
       held = s.expires_at IS NULL OR s.expires_at > statement_timestamp(),
       -- Held without a call of this claim's: it carries the token that no claim has.
       token = CASE WHEN s.expires_at <= statement_timestamp() THEN s.token ELSE 0 END,
       held_at = CASE WHEN s.expires_at IS NULL OR s.expires_at > statement_timestamp() THEN statement_timestamp() END,
       error = CASE WHEN s.expires_at <= statement_timestamp() THEN 'expired'
                    WHEN s.resend_until <= statement_timestamp()
                    THEN 'unknown: the provider knew the key of an unknown attempt no longer'
                    ELSE 'unknown: an attempt may have gone out by ' || coalesce(s.provider, 'a provider')
                         || ', which the channel no longer has' END
  FROM unnest($1::bigint[], $2::bigint[], $3::text[]) AS asked (id, token, provider)
 WHERE s.id = ANY (ARRAY[asked.id]) AND s.token = asked.token AND NOT s.marked AND s.status = 'queued'
   AND (s.expires_at <= statement_timestamp() OR s.resend_until <= statement_timestamp()
        OR s.resend_until IS NOT NULL AND s.provider IS DISTINCT FROM coalesce(asked.provider, ($3::text[])[1]));

-- name: alive
-- Whether an epoch still stands.
SELECT EXISTS (SELECT FROM dispatcher.instances WHERE epoch = $1);
