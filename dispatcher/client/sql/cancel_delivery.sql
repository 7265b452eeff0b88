-- Cancel a delivery until it is marked, by its id or its key.
SELECT dispatcher.cancel_delivery($1, $2, $3, $4, $5, $6);
