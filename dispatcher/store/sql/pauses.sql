-- name: pause
-- Stop a channel, provider, tenant or template.
SELECT dispatcher.pause_v1($1, $2, $3, $4);

-- name: resume
-- Let it go on.
SELECT dispatcher.resume_v1($1, $2, $3);

-- name: open
-- What is paused now, by whom and why.
SELECT id, scope, name, since, actor, reason FROM dispatcher.pauses WHERE ended_at IS NULL ORDER BY id;

-- name: unpark
-- Make up to $1 deliveries ready whose pause is over.
SELECT dispatcher.unpark_v1($1);
