-- session_operate: how the connection that operators use is set up.
-- Filters leave most parameters null: each statement is planned for what it was given.
set jit = off;
set plan_cache_mode = force_custom_plan;
