-- history: attempts of an event that were written down, the latest first. ?1 event, ?2 limit.
select number, epoch, claimed_at, ended_at, took, ending, error, relay, relay_name, destination
from {outbox:attempts}
where event_id = ?1
order by epoch desc
limit ?2
