-- session_settle: how the connection that settles is set up.
-- Each statement has one good plan, whatever the statistics say: along the index.
set enable_seqscan = off;
set enable_bitmapscan = off;
set enable_hashjoin = off;
set enable_mergejoin = off;
set jit = off;
set plan_cache_mode = force_generic_plan;
-- Who waits for a row that somebody has locked tries again: leases are prolonged in between.
set lock_timeout = '2s';
-- Whoever waited for a row goes on with what it is now, whatever the database prefers.
set default_transaction_isolation = 'read committed';
-- Each statement is given its time, and stopped after it, by whoever sent it.
set statement_timeout = 0;
