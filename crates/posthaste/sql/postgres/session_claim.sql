-- session_claim: how the connection that claims is set up.
-- Each statement has one good plan, whatever the statistics say: along the index.
set enable_seqscan = off;
set enable_bitmapscan = off;
set enable_hashjoin = off;
set enable_mergejoin = off;
set jit = off;
set plan_cache_mode = force_generic_plan;
-- A claim that a crash of the database undoes is just claimed again: nothing waits for its flush.
set synchronous_commit = off;
-- A database without an encoding holds any bytes. With UTF-8 agreed on, one row that is none would keep the server
-- from giving back any other of the same answer.
select set_config('client_encoding', 'SQL_ASCII', false) where current_setting('server_encoding') = 'SQL_ASCII';
-- Whoever waited for a row goes on with what it is now, whatever the database prefers.
set default_transaction_isolation = 'read committed';
-- Each statement is given its time, and stopped after it, by whoever sent it.
set statement_timeout = 0;
