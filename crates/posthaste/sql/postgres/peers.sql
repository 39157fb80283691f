-- peers: owners whose session is gone. $1 ourselves.
-- The latest thousand: each takes a place in the lock table of the whole server. What others before them held comes back
-- when its lease ends.
select owner
from (select owner from {outbox:relay} where owner <> $1 order by started_at desc limit 1000) latest
where pg_try_advisory_xact_lock(hashtextextended(owner::text, 0))
