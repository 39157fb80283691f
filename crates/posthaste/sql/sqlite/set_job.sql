-- set_job: pause, resume or cancel a redelivery that is not over. ?1 id, ?2 state, ?3 now.
update {outbox:jobs}
set state = ?2, updated_at = ?3, ended_at = case when ?2 in ('done', 'cancelled') then ?3 end
where id = ?1 and ended_at is null and state <> ?2
