-- name: add
-- Put addresses on the list, or renew what is there with a new reason and end. Each address once; in the order of the
-- key, so that two that add the same ones do not wait for each other in a ring.
INSERT INTO dispatcher.suppressions AS s (tenant_id, kind, address, channel, source, expires_at, actor, reason)
SELECT DISTINCT ON (kind, address, channel, source) $1, kind, address, channel, source, expires_at, $2, reason
  FROM unnest($3::text[], $4::text[], $5::text[], $6::text[], $7::timestamptz[], $8::text[])
    AS r (kind, address, channel, source, expires_at, reason)
 ORDER BY kind, address, channel, source
ON CONFLICT ON CONSTRAINT suppressions_pkey DO UPDATE
   SET added_at = statement_timestamp(), expires_at = excluded.expires_at, actor = excluded.actor,
       reason = excluded.reason
 -- A repeated entry changes nothing, however often.
 WHERE (s.expires_at, s.reason) IS DISTINCT FROM (excluded.expires_at, excluded.reason);

-- name: release
-- Take addresses off the list: all of their entries, or those of one source or one channel. Answers what went.
WITH said AS MATERIALIZED (
    SELECT set_config('dispatcher.actor', $5, true), set_config('dispatcher.reason', $6, true)
), hashed AS (
    DELETE FROM dispatcher.erased_suppressions e
     USING said, unnest($2::text[], $3::text[]) AS asked (kind, address)
     WHERE e.tenant_id = $1 AND e.kind = asked.kind AND e.hash = sha256(convert_to(asked.address, 'UTF8')) AND e.topic = ''
       AND ($4::text IS NULL OR e.source = $4) AND ($7::text IS NULL OR e.channel = $7)
    RETURNING e.kind, asked.address, e.channel, e.source, e.expires_at, e.hash
), kept AS (
    INSERT INTO dispatcher.suppression_log (actor, action, tenant_id, kind, address, channel, source, expires_at, reason)
    SELECT $5, 'release', $1, kind, 'sha256:' || encode(hash, 'hex'), channel, source, expires_at, $6 FROM hashed
), plain AS (
    DELETE FROM dispatcher.suppressions s
     USING said, unnest($2::text[], $3::text[]) AS asked (kind, address)
     WHERE s.tenant_id = $1 AND s.kind = asked.kind AND s.address = asked.address
       AND ($4::text IS NULL OR s.source = $4) AND ($7::text IS NULL OR s.channel = $7)
    RETURNING s.kind, s.address, s.channel, s.source
)
SELECT kind, address, channel, source FROM plain UNION ALL SELECT kind, address, channel, source FROM hashed;

-- name: list
-- The list in the order of addresses, behind one of them.
SELECT tenant_id, kind, address, channel, source, added_at, expires_at, actor, reason
  FROM dispatcher.suppressions
 WHERE tenant_id = $1 AND ($2::text IS NULL OR source = $2) AND ($3::text IS NULL OR kind = $3)
   AND (expires_at IS NULL OR expires_at > statement_timestamp())
   AND (kind, address, channel, source) > ($4, $5, $6, $7)
 ORDER BY kind, address, channel, source LIMIT $8;

-- name: entries
-- What stands about one address.
SELECT channel, source, added_at, expires_at, actor, reason FROM dispatcher.suppressions
 WHERE tenant_id = $1 AND kind = $2 AND address = $3 AND (expires_at IS NULL OR expires_at > statement_timestamp())
 UNION ALL
-- Of somebody who was erased.
SELECT channel, source, added_at, expires_at, 'dispatcher', 'erased' FROM dispatcher.erased_suppressions
 WHERE tenant_id = $1 AND kind = $2 AND hash = sha256(convert_to($3, 'UTF8')) AND topic = ''
   AND (expires_at IS NULL OR expires_at > statement_timestamp())
 ORDER BY channel, source;

-- name: log
-- What was said about one address, the newest first.
SELECT at, actor, action, channel, source, topic, expires_at, reason FROM dispatcher.suppression_log
 WHERE tenant_id = $1 AND kind = $2 AND address IN ($3, 'sha256:' || encode(sha256(convert_to($3, 'UTF8')), 'hex'))
 ORDER BY id DESC LIMIT $4;

-- name: prefer
-- Set for addresses whether they want a topic; a repeated setting changes nothing. An address that wants it again is
-- no longer kept away from it by what was said before they were erased.
WITH forgiven AS (
    DELETE FROM dispatcher.erased_suppressions e USING unnest($2::text[], $3::text[]) AS r (kind, address)
     WHERE $5 AND e.tenant_id = $1 AND e.kind = r.kind AND e.hash = sha256(convert_to(r.address, 'UTF8')) AND e.topic = $4
)
INSERT INTO dispatcher.topic_preferences AS p (tenant_id, kind, address, topic, subscribed, actor, reason)
SELECT DISTINCT ON (kind, address) $1, kind, address, $4, $5, $6, $7
  FROM unnest($2::text[], $3::text[]) AS r (kind, address) ORDER BY kind, address
ON CONFLICT ON CONSTRAINT topic_preferences_pkey DO UPDATE
   SET subscribed = excluded.subscribed, changed_at = statement_timestamp(), actor = excluded.actor,
       reason = excluded.reason
 WHERE p.subscribed <> excluded.subscribed;

-- name: preferences
-- What addresses said about topics, behind one of them.
SELECT tenant_id, topic, kind, address, subscribed, changed_at, actor, reason FROM dispatcher.topic_preferences
 WHERE tenant_id = $1 AND ($2::text IS NULL OR topic = $2) AND ($3::text IS NULL OR (kind, address) = ($3, $4))
   AND (kind, address, topic) > ($5, $6, $7)
 UNION ALL
-- Of somebody who was erased, where it is asked for them.
SELECT tenant_id, topic, kind, $4, false, added_at, 'dispatcher', 'erased' FROM dispatcher.erased_suppressions
 WHERE tenant_id = $1 AND ($2::text IS NULL OR topic = $2) AND topic <> '' AND kind = $3
   AND hash = sha256(convert_to($4::text, 'UTF8')) AND (kind, $4::text, topic) > ($5, $6, $7)
 ORDER BY kind, address, topic LIMIT $8;
