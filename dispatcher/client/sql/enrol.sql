-- Enrol a contact in a sequence, or find the enrolment that it has.
SELECT enrollment_id AS id, status, version, next_step_at, duplicate FROM dispatcher.enrol($1, $2, $3, $4, $5, $6);
