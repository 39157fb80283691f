-- session_operate: how the connection that operators use is set up.
-- Filters leave most parameters null: each statement is planned for what it was given.
set jit = off;
set plan_cache_mode = force_custom_plan;
-- A database without an encoding holds any bytes. With UTF-8 agreed on, one row that is none would keep the server
-- from giving back any other of the same answer.
select set_config('client_encoding', 'SQL_ASCII', false) where current_setting('server_encoding') = 'SQL_ASCII';
-- Whoever waited for a row goes on with what it is now, whatever the database prefers.
set default_transaction_isolation = 'read committed';
-- Each statement is given its time, and stopped after it, by whoever sent it.
set statement_timeout = 0;
