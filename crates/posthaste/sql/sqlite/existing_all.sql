-- existing_all: the event that each message made or collided with, in order. ?1 as in enqueue_all.
select coalesce(same.id, twin.id), coalesce(same.sequence, twin.sequence)
from json_each(?1) message
left join {outbox} same on same.id = message.value ->> 0
left join {outbox} twin
  on same.id is null and twin.namespace = message.value ->> 1 and twin.topic = message.value ->> 2
     and twin.dedupe_key = message.value ->> 8
order by message.key
