-- resume: end a pause. ?1 destination.
delete from {outbox:pauses} where destination = ?1
