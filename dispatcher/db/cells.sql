-- name: join
-- Make this database a cell, or check that it is this one.
SELECT dispatcher.join_cells($1::smallint);

-- name: take_unlisted
-- Whether tenants that were never placed are at home here.
SELECT dispatcher.take_unlisted($1);

-- name: require_here
-- Raise where a tenant is not at home here.
SELECT dispatcher.require_here($1);
