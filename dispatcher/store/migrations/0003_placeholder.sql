-- Stands in for a migration that is written elsewhere.
SELECT 1;
