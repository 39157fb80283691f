-- pauses: what is paused, the outbox first.
select destination, at, actor, why from {outbox:pauses} order by destination
