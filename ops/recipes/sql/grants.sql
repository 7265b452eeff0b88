-- A role for an application, with no right but to call the functions that it needs. The recipes beside this file use it.
--
-- Run it once, as the owner of the dispatcher's schema and in its database:
--
--   psql "$DISPATCHER_DATABASE_URL" --set ON_ERROR_STOP=1 --file ops/recipes/sql/grants.sql
--
-- and give the role a password, or whatever else pg_hba.conf asks for: ALTER ROLE shop PASSWORD '…'.

DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'shop') THEN CREATE ROLE shop LOGIN; END IF;
END $$;

-- The application's own tables. A schema with its role's name is where it looks first.
CREATE SCHEMA IF NOT EXISTS shop AUTHORIZATION shop;

-- No table of the dispatcher's, and no other function. Leave out what the application does not do.
GRANT USAGE ON SCHEMA dispatcher TO shop;
GRANT EXECUTE ON FUNCTION dispatcher.trigger_workflow, dispatcher.enqueue_delivery, dispatcher.signal_run,
    dispatcher.cancel_run, dispatcher.cancel_delivery, dispatcher.run_status, dispatcher.delivery_status TO shop;
