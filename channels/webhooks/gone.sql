-- An endpoint wants nothing any more.
SELECT dispatcher.webhook_gone_v1($1, $2)
