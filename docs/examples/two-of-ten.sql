-- Each transaction updates two of ten rows in random order, so that transactions run into deadlocks. For pgbench:
--   psql -c 'CREATE TABLE ten (id int PRIMARY KEY, n bigint)' -c 'INSERT INTO ten SELECT generate_series(1, 10), 0'
--   pgbench -n -c 16 -j 2 -T 30 -f docs/examples/two-of-ten.sql
\set first random(1, 10)
\set second random(1, 10)
BEGIN;
UPDATE ten SET n = n + 1 WHERE id = :first;
UPDATE ten SET n = n + 1 WHERE id = :second;
END;
