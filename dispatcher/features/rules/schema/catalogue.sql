-- The catalogue of triggers that comes with the program. An operator's own entry of the same name takes its place.

CREATE VIEW dispatcher.builtin_triggers WITH (security_invoker = true) AS
SELECT b.name, b.description, b.variables::text[] AS variables, b.sample::jsonb AS sample, b.pairs::jsonb AS pairs
  FROM (VALUES
    ('lead_welcome', 'Somebody has become a lead.',
     '{lead.name,lead.email,lead.phone}',
     '{"lead": {"name": "Ann Lee", "email": "ann@example.org", "phone": "+4930901820"}}',
     '{"email/lead": "caller", "whatsapp/lead": "caller"}'),
    ('quote_sent', 'A quote is ready for the lead.',
     '{lead.name,lead.email,lead.phone,quote.number,quote.total,quote.url}',
     '{"lead": {"name": "Ann Lee", "email": "ann@example.org", "phone": "+4930901820"},
       "quote": {"number": "Q-17", "total": "1,200.00 EUR", "url": "https://example.org/quotes/17"}}',
     '{"email/lead": "message", "whatsapp/lead": "none"}'),
    ('quote_accepted', 'The lead has accepted a quote.',
     '{lead.name,lead.email,lead.phone,partner.name,partner.email,agent.name,agent.email,quote.number,quote.total,quote.url}',
     '{"lead": {"name": "Ann Lee", "email": "ann@example.org", "phone": "+4930901820"},
       "quote": {"number": "Q-17", "total": "1,200.00 EUR", "url": "https://example.org/quotes/17"},
       "partner": {"name": "Bo", "email": "bo@example.org"}, "agent": {"name": "Cid", "email": "cid@example.org"}}',
     '{"email/lead": "message", "whatsapp/lead": "none", "email/partner": "none", "email/agent": "message"}'),
    ('quote_rejected', 'The lead has rejected a quote.',
     '{lead.name,lead.email,lead.phone,quote.number,quote.total,quote.url}',
     '{"lead": {"name": "Ann Lee", "email": "ann@example.org", "phone": "+4930901820"},
       "quote": {"number": "Q-17", "total": "1,200.00 EUR", "url": "https://example.org/quotes/17"}}',
     '{"email/lead": "none", "whatsapp/lead": "none"}'),
    ('appointment_reminder', 'An appointment comes near: event_at is its time.',
     '{lead.name,lead.email,lead.phone,event.at,appointment.place}',
     '{"lead": {"name": "Ann Lee", "email": "ann@example.org", "phone": "+4930901820"}, "appointment": {"place": "Main Street 1"}}',
     '{"email/lead": "caller", "whatsapp/lead": "caller"}')
  ) AS b (name, description, variables, sample, pairs);

-- The messages that are sent where there is no rule, or it fails. `blank` is what they read, for an event that lacks it.
-- {"pdf": "quote"} among the attachments is a page that is made of the variables when the mail is rendered.
CREATE VIEW dispatcher.builtin_messages WITH (security_invoker = true) AS
SELECT b.event_trigger, b.channel, b.audience, b.template::jsonb AS template, b.blank::jsonb AS blank, b.options::jsonb AS options
  FROM (VALUES
    ('quote_sent', 'email', 'lead',
     '{"subject": "Your quote{% if quote.number != blank %} {{ quote.number }}{% endif %}",
       "text": "Hello{% if lead.name != blank %} {{ lead.name }}{% endif %},\n\nyour quote{% if quote.number != blank %} {{ quote.number }}{% endif %} is ready.{% if quote.total != blank %}\nTotal: {{ quote.total }}{% endif %}{% if quote.url != blank %}\n{{ quote.url }}{% endif %}\n"}',
     '{"lead": {"name": ""}, "quote": {"number": "", "total": "", "url": ""}}', '{}'),
    ('quote_accepted', 'email', 'lead',
     '{"subject": "Thank you{% if quote.number != blank %}: quote {{ quote.number }}{% endif %}",
       "text": "Hello{% if lead.name != blank %} {{ lead.name }}{% endif %},\n\nthank you for accepting the quote{% if quote.number != blank %} {{ quote.number }}{% endif %}. It is attached.\n"}',
     '{"lead": {"name": ""}, "quote": {"number": ""}}',
     '{"attachments": [{"pdf": "quote", "name": "quote.pdf"}]}'),
    ('quote_accepted', 'email', 'agent',
     '{"subject": "Accepted: quote{% if quote.number != blank %} {{ quote.number }}{% endif %}",
       "text": "Hello{% if agent.name != blank %} {{ agent.name }}{% endif %},\n\n{% if lead.name != blank %}{{ lead.name }} has{% else %}the lead has{% endif %} accepted the quote{% if quote.number != blank %} {{ quote.number }}{% endif %}.{% if quote.total != blank %}\nTotal: {{ quote.total }}{% endif %}{% if quote.url != blank %}\n{{ quote.url }}{% endif %}\n"}',
     '{"lead": {"name": ""}, "agent": {"name": ""}, "quote": {"number": "", "total": "", "url": ""}}', '{}')
  ) AS b (event_trigger, channel, audience, template, blank, options);

-- A trigger as a workspace knows it: its own entry, else the one that comes with the program.
CREATE VIEW dispatcher.known_triggers WITH (security_invoker = true) AS
SELECT o.tenant_id, o.workspace_id, o.name, o.description, o.variables, o.sample, o.pairs, o.version FROM dispatcher.event_triggers o
UNION ALL
SELECT NULL, NULL, b.name, b.description, b.variables, b.sample, b.pairs, 0 FROM dispatcher.builtin_triggers b;

GRANT SELECT ON dispatcher.builtin_triggers, dispatcher.builtin_messages, dispatcher.known_triggers TO dispatcher_tenant;
