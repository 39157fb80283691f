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
