-- An endpoint wants nothing any more.
SELECT dispatcher.webhook_gone($1, $2)
