-- A tenth of the transactions moves money between two accounts, of which a few are hot; the others only look.
\set hot random_zipfian(1, 100000 * :scale, 1.2)
\set from permute(:hot, 100000 * :scale) + 1
\if random(1, 10) = 1
    \set to 1 + (:from + random(0, 100000 * :scale - 2)) % (100000 * :scale)
    -- The smaller number first, lest two of these wait for each other.
    \set first least(:from, :to)
    \set second greatest(:from, :to)
    BEGIN;
    SELECT abalance AS balance FROM pgbench_accounts WHERE aid = :first FOR UPDATE \gset
    \set amount least(abs(:balance), 100) + 1
    UPDATE pgbench_accounts SET abalance = abalance - :amount WHERE aid = :first;
    UPDATE pgbench_accounts SET abalance = abalance + :amount WHERE aid = :second;
    END;
\else
    SELECT abalance FROM pgbench_accounts WHERE aid = :from;
\endif
