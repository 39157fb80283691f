-- pause: leave a destination, or the outbox, in peace. ?1 destination, ?2 now, ?3 actor, ?4 why.
insert into {outbox:pauses} (destination, at, actor, why) values (?1, ?2, ?3, ?4)
on conflict do nothing
