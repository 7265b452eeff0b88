-- What was done by whom is read backwards in time: of each kind the newest, without what came before.

CREATE INDEX operator_actions_by_time ON dispatcher.operator_actions (at, id);
CREATE INDEX workflow_actions_by_time ON dispatcher.workflow_actions (at, id);
CREATE INDEX template_versions_by_time ON dispatcher.template_versions (created_at, id);
CREATE INDEX template_publications_by_time ON dispatcher.template_publications (at, id);
CREATE INDEX api_key_actions_by_time ON dispatcher.api_key_actions (at, id);
CREATE INDEX schedule_actions_by_time ON dispatcher.schedule_actions (at, id);
CREATE INDEX suppression_log_by_time ON dispatcher.suppression_log (tenant_id, at, id);
-- Of what is in the logs of runs, what people did.
CREATE INDEX run_entries_by_people ON dispatcher.run_entries (at, run_id)
    WHERE event IN ('paused', 'resumed', 'cancelled', 'replayed', 'discarded');
CREATE INDEX pauses_by_time ON dispatcher.pauses (since, id);
CREATE INDEX pauses_by_end ON dispatcher.pauses (ended_at, id) WHERE ended_at IS NOT NULL;
