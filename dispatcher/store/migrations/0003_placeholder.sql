-- Keeps the number of a migration that comes from elsewhere.
SELECT;
