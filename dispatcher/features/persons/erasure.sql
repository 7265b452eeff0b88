-- name: request
-- Write down that a person is to be erased from a workspace, and the contact with the key $7.
INSERT INTO dispatcher.erasures (tenant_id, workspace_id, actor, reason, subjects, addresses, contacts)
SELECT $1, $2, $3, $4, $5, $6::jsonb,
       ARRAY(SELECT c.id FROM dispatcher.contacts c WHERE c.tenant_id = $1 AND c.workspace_id = $2 AND c.key = $7)
RETURNING id;

-- name: workspaces
-- The workspaces in which a tenant has anything.
SELECT workspace_id FROM dispatcher.deliveries WHERE tenant_id = $1
 UNION SELECT workspace_id FROM dispatcher.runs WHERE tenant_id = $1
 UNION SELECT workspace_id FROM dispatcher.contacts WHERE tenant_id = $1 ORDER BY 1;

-- name: list
-- Erasures of a workspace below a number, the newest first; or one of them.
SELECT id, asked_at, looked_at, finished_at, deliveries, runs, waits_for, actor, reason, subjects FROM dispatcher.erasures
 WHERE tenant_id = $1 AND workspace_id = $2 AND id < $3 AND ($4::bigint IS NULL OR id = $4) ORDER BY id DESC LIMIT $5;

-- name: open
-- One that is open, as it stands: a certain one, or the one that was not looked at for longest, and not for $2 seconds.
UPDATE dispatcher.erasures e SET looked_at = statement_timestamp()
 WHERE e.id = (SELECT o.id FROM dispatcher.erasures o
                WHERE o.finished_at IS NULL AND ($1::bigint IS NULL OR o.id = $1)
                  AND ($1::bigint IS NOT NULL OR o.looked_at IS NULL
                       OR o.looked_at < statement_timestamp() - make_interval(secs => $2))
                ORDER BY o.looked_at NULLS FIRST, o.id LIMIT 1 FOR UPDATE SKIP LOCKED)
RETURNING e.id, e.tenant_id, e.workspace_id, e.actor, e.asked_at, e.deliveries_upto, e.runs_upto, e.addresses::text, e.contacts;

-- name: arm
-- See to it that erased keys stay duplicates.
SELECT dispatcher.keep_erased_keys();

-- name: contacts
-- Delete the contacts behind addresses, with all that is known of them; not those that are new since it was asked for. Answers
-- the ids of all that the erasure has deleted.
WITH gone AS (
    DELETE FROM dispatcher.contacts c
     WHERE c.created_at <= $5 AND c.id IN (SELECT a.contact_id FROM dispatcher.contact_addresses a
                      JOIN unnest($3::text[], $4::text[]) AS asked (kind, address) ON a.address = asked.address
                       AND (a.kind = asked.kind OR asked.kind = 'other' AND a.kind IN ('push', 'chat', 'social'))
                     WHERE a.tenant_id = $1 AND a.workspace_id = $2)
    RETURNING c.id
)
UPDATE dispatcher.erasures e SET contacts = e.contacts || ARRAY(SELECT g.id FROM gone g) WHERE e.id = $6 RETURNING e.contacts;

-- name: expansions
-- Wait for expansions that may have read a contact before it was deleted.
SELECT dispatcher.await_expansions($1, $2);

-- name: campaigns
-- Take the person out of campaigns, their jobs and reasons.
SELECT dispatcher.erase_from_campaigns($1, $2, $3, $4);

-- name: suppressions
-- Keep suppressions as hashes, and delete the addresses.
SELECT dispatcher.erase_suppressions($1, asked.kind, asked.address)
  FROM unnest($2::text[], $3::text[]) AS asked (kind, address);

-- name: sent
-- Deliveries of a workspace to addresses that look like these, behind a number, that were there when it was asked for; and those
-- of campaigns to contacts that are gone, or of tests that are as old: their expansion may have read what was deleted since.
SELECT d.id, CASE WHEN d.node IS NOT NULL THEN d.run_id END AS run_id, d.channel, d.recipient, s.status, s.held, s.marked
  FROM (SELECT DISTINCT dispatcher.address_hash(form) AS hash FROM unnest($3::text[]) AS form) AS asked
  JOIN dispatcher.deliveries d ON dispatcher.address_hash(d.recipient) = asked.hash
  JOIN dispatcher.delivery_state s USING (id)
 WHERE d.tenant_id = $1 AND d.workspace_id = $2 AND d.id > $4
   AND (d.created_at <= $5 OR d.job_id IS NOT NULL AND d.contact_id IS NOT NULL
                              AND (NOT EXISTS (SELECT FROM dispatcher.contacts c WHERE c.id = d.contact_id)
                                   OR EXISTS (SELECT FROM dispatcher.job_queue q
                                               WHERE q.id = d.job_id AND q.recipients IS NOT NULL AND q.created_at <= $5)))
 ORDER BY d.id LIMIT $6;

-- name: of_runs
-- The deliveries of runs.
SELECT d.id, d.run_id, d.channel, d.recipient, s.status, s.held, s.marked
  FROM dispatcher.deliveries d JOIN dispatcher.delivery_state s USING (id)
 WHERE d.run_id = ANY ($1::bigint[]) AND (d.job_id IS NULL OR d.contact_id IS NULL) ORDER BY d.id;

-- name: before
-- Of these runs those that were there at a moment, and those that stand in at a digest for one that was: what they have was left
-- with that one.
WITH RECURSIVE line AS (
    SELECT r.id AS of, r.id, r.created_at, r.triggered_by FROM dispatcher.runs r WHERE r.id = ANY ($1::bigint[])
    UNION ALL
    SELECT l.of, r.id, r.created_at, r.triggered_by
      FROM line l JOIN dispatcher.runs r ON r.id = substring(l.triggered_by FROM '^digest of run ([0-9]{1,18})$')::bigint AND r.id < l.id
     WHERE l.created_at > $2
)
SELECT l.of AS id FROM line l WHERE l.created_at <= $2 ORDER BY 1;

-- name: mentioned
-- Of the next $5 deliveries behind a number those of this workspace that mention an address in what they say, or in their
-- key, or are items of a campaign for one of the contacts $8; and how far that led. What tells an endpoint of something is as old
-- as that is, and mentions what was erased of it.
WITH span AS MATERIALIZED (
    SELECT d.id, d.tenant_id, d.workspace_id, d.created_at,
           d.job_id IS NOT NULL AND d.contact_id = ANY ($8::bigint[]) AND (d.recipient, d.variables) <> ('erased', '{}') AS for_them,
           CASE WHEN d.channel = 'webhook' THEN d.variables ->> 'event' END AS event,
           lower(concat_ws(' ', d.idempotency_key, d.template::text, d.variables::text, d.options::text)) AS says
      FROM dispatcher.deliveries d WHERE d.id > $4 ORDER BY d.id LIMIT $5
), here AS (
    SELECT s.*, substring(s.event FROM '"type":"(delivery|run)\.') AS kind,
           substring(s.event FROM '"data":{"id":([0-9]{1,18}),')::bigint AS subject
      FROM span s WHERE s.tenant_id = $1 AND s.workspace_id = $2
), found AS (
    SELECT h.id, coalesce(h.for_them, false) AS for_them FROM here h
      LEFT JOIN dispatcher.deliveries d ON h.kind = 'delivery' AND (d.id, d.tenant_id, d.workspace_id) = (h.subject, $1, $2)
      LEFT JOIN dispatcher.runs r ON h.kind = 'run' AND (r.id, r.tenant_id, r.workspace_id) = (h.subject, $1, $2)
     WHERE (d.recipient, d.variables) = ('erased', '{}') OR (r.note, r.input) = ('erased', '{}') OR h.for_them
        OR coalesce(d.created_at, r.created_at, h.created_at) <= $7
           AND EXISTS (SELECT FROM unnest($3::text[]) AS term WHERE strpos(h.says, term) > 0) AND h.says ~ $6
)
SELECT f.id, f.for_them, t.status, t.held, t.marked, (SELECT max(id) FROM span) AS upto
  FROM (SELECT max(id) AS id FROM span) AS last
  LEFT JOIN found f ON true
  LEFT JOIN dispatcher.delivery_state t ON t.id = f.id
 WHERE last.id IS NOT NULL
 ORDER BY f.id;

-- name: unsent_events
-- What is to be told of something that was erased says nothing that was known of it then. Who tells it just now is waited for: that
-- is a delivery from then on.
UPDATE dispatcher.webhook_events h
   SET facts = h.facts || jsonb_strip_nulls(jsonb_build_object(
           'error', CASE WHEN h.facts ->> 'error' IS NOT NULL THEN 'erased' END,
           'provider_message_id', dispatcher.erased(h.facts ->> 'provider_message_id'),
           'receipt', CASE WHEN h.facts ? 'receipt' THEN h.facts -> 'receipt' || '{"reason": ""}' END))
 WHERE h.tenant_id = $1 AND h.workspace_id = $2
   AND CASE WHEN h.type LIKE 'run.%'
            THEN EXISTS (SELECT FROM dispatcher.runs r WHERE r.id = h.subject AND (r.note, r.input) = ('erased', '{}'))
            WHEN h.type LIKE 'delivery.%'
            THEN EXISTS (SELECT FROM dispatcher.deliveries d WHERE d.id = h.subject AND (d.recipient, d.variables) = ('erased', '{}'))
            ELSE false END;

-- name: cancel_run
-- Let a run that is not finished go no further.
SELECT dispatcher.cancel_run(r.id, 'erased', r.tenant_id, r.workspace_id, $2) FROM dispatcher.runs r
 WHERE r.id = ANY ($1::bigint[]) AND r.finished_at IS NULL;

-- name: erase_deliveries
SELECT dispatcher.erase_deliveries($1, $2);

-- name: erase_runs
-- Take away what finished runs have come to, with all that they have told the person ($2) and others ($3): all or nothing.
SELECT dispatcher.erase_runs($1) AS runs,
       dispatcher.erase_deliveries($2, false) + dispatcher.erase_deliveries($3, true) AS deliveries;

-- name: settle
-- Settle the held deliveries of an erased person. Answers settled, or early where a call may still be going on.
SELECT dispatcher.settle_held(d.id, 'failed', $2, 'erased') AS answer FROM dispatcher.deliveries d WHERE d.id = $1;

-- name: receipts
-- Receipts that wait for a delivery and speak of an address: those that name a key of this workspace; and those that name none,
-- where no other one has sent anything there. Else they may be about that, and their time is over within a day.
DELETE FROM dispatcher.waiting_receipts w
 WHERE EXISTS (SELECT FROM unnest($1::text[]) AS term WHERE strpos(lower(w.receipt::text), term) > 0) AND lower(w.receipt::text) ~ $2
   AND CASE WHEN w.receipt ? 'key' THEN (w.receipt #>> '{key,0}', w.receipt #>> '{key,1}') = ($3, $4)
            ELSE NOT EXISTS (SELECT FROM unnest($5::text[]) AS form
                               JOIN dispatcher.deliveries d ON dispatcher.address_hash(d.recipient) = dispatcher.address_hash(form)
                              WHERE (d.tenant_id, d.workspace_id) <> ($3, $4)) END;

-- name: answers
-- Kept answers of the HTTP door that speak of an address say nothing any more, and a key that does is its hash. But for what is
-- answered to whoever asks for an erasure, which has hashes: if that was lost, it is asked for again when all is done.
UPDATE dispatcher.api_answers a SET answer = '{"erased":true}', key = dispatcher.erased(a.key)
  FROM (SELECT k.key, lower(concat_ws(' ', k.key, convert_from(k.answer, 'UTF8'))) AS says FROM dispatcher.api_answers k
         WHERE k.tenant_id = $1 AND k.workspace_id = $2
           AND NOT (k.status = 202 AND strpos(encode(k.answer, 'escape'), '"subjects":["sha256:') > 0)) AS kept
 WHERE a.tenant_id = $1 AND a.workspace_id = $2 AND a.key = kept.key
   AND EXISTS (SELECT FROM unnest($3::text[]) AS term WHERE strpos(kept.says, term) > 0) AND kept.says ~ $4;

-- name: progress
-- How far it has come, and how many deliveries it waits for.
UPDATE dispatcher.erasures e
   SET deliveries = e.deliveries + $2, runs = e.runs + $3, deliveries_upto = $4, runs_upto = $5, waits_for = $6,
       finished_at = CASE WHEN $7 THEN statement_timestamp() END, addresses = CASE WHEN NOT $7 THEN e.addresses END
 WHERE e.id = $1 AND e.finished_at IS NULL;
