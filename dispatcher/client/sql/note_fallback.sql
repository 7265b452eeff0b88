-- Write down what became of the caller's own code.
SELECT dispatcher.note_fallback($1, $2, $3, $4, $5, $6, $7);
