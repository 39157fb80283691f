-- note: write down what an operator did. ?1 now, ?2 actor, ?3 act, ?4 event, ?5 topic, ?6 why.
insert into {outbox:audit} (at, actor, act, event_id, topic, why) values (?1, ?2, ?3, ?4, ?5, ?6)
