-- peers: owners whose session is gone. $1 ourselves.
select owner from {outbox:relay}
where owner <> $1 and pg_try_advisory_xact_lock(hashtextextended(owner::text, 0))
