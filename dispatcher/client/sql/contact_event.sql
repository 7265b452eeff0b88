-- Tell of an event of a contact; answers how many enrolments it has ended.
SELECT dispatcher.contact_event($1, $2, $3, $4, $5, $6);
