-- note: write down what an operator did to no single event. $1 actor, $2 act, $3 why.
insert into {outbox:audit} (actor, act, event_id, topic, why)
values ($1::text, $2::text, '00000000-0000-0000-0000-000000000000', '', $3::text)
