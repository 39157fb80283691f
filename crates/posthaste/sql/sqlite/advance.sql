-- advance: record how far a redelivery got.
-- ?1 id, ?2 now, ?3 and ?4 its place, ?5 how many it redelivered, ?6 until when its rate is used up, ?7 whether it is over.
update {outbox:jobs}
set cursor_at = ?3, cursor_sequence = ?4, redelivered = redelivered + ?5, spent_at = ?6, updated_at = ?2,
    state = case when ?7 then 'done' else state end, ended_at = case when ?7 then ?2 end
where id = ?1 and state = 'running'
