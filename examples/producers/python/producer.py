"""A producer in Python, with psycopg. Each order is committed together with its event, or not at all.

DATABASE_URL=postgres://localhost/shop python producer.py function|insert MODE ORDER…
"""

import os
import sys
from dataclasses import dataclass, replace
from uuid import UUID, uuid4

import psycopg
from psycopg.types.json import Jsonb

TENANT = UUID("6f2c1f0e-7a35-4d5f-8f3a-0d7b1c2e3f40")


@dataclass(frozen=True)
class Order:
    """What a customer wants, and what the event about it says."""

    number: int
    item: str
    event: UUID  # the event's id, the consumers' idempotency key
    topic: str
    dedupe_key: str | None  # the producer's own idempotency key; begins with the tenant


class SoldOut(Exception):
    pass


def place(db, enqueue, order):
    """Writes an order and its event in one transaction: both are there afterwards, or neither."""
    with db.transaction():
        db.execute(
            "insert into python_orders (number, item) values (%s, %s) on conflict do nothing",
            (order.number, order.item),
        )
        receipt = enqueue(db, order)
        if order.item == "unicorn":
            raise SoldOut  # noticed late: the order goes, and its event with it
    return receipt


def by_function(db, order):
    call = """
        select event_id, new
        from orders_outbox_enqueue(
          topic => %(topic)s, payload => %(payload)s, id => %(id)s, tenant_id => %(tenant)s,
          dedupe_key => %(dedupe_key)s, headers => %(headers)s)
    """
    return db.execute(call, fields(order)).fetchone()


def by_insert(db, order):
    insert = """
        insert into orders_outbox (topic, payload, id, tenant_id, dedupe_key, headers)
        values (%(topic)s, %(payload)s, %(id)s, %(tenant)s, %(dedupe_key)s, %(headers)s)
        on conflict do nothing
    """
    new = db.execute(insert, fields(order)).rowcount == 1
    return order.event if new else "", new  # of one that is there already, only the function tells


def fields(order):
    return {
        "topic": order.topic,
        "payload": Jsonb({"order": order.number, "item": order.item}),
        "id": order.event,
        "tenant": TENANT,
        "dedupe_key": order.dedupe_key,
        "headers": Jsonb({"source": "python"}),
    }


def refused(failure):
    """What is wrong with a message; raised on, if that is not what the database complains about."""
    state, constraint = failure.sqlstate, failure.diag.constraint_name
    if state == "22023" or (constraint or "").startswith("orders_outbox_topic"):
        return f"topic {state}"
    if constraint == "orders_outbox_tenant":
        return f"tenant {state}"
    raise failure


def attempts(mode, number):
    """The calls that show a mode: some do something wrong, some do it again."""
    key = f"{TENANT}/python-{number}"
    order = Order(number, '21" lamp', uuid4(), "shop.order.placed.v1", key)
    match mode:
        case "rollback":
            return [replace(order, item="unicorn")]
        case "duplicate":
            return [order, replace(order, event=uuid4()), replace(order, dedupe_key=None)]
        case "race":  # for the same event as the producers in other languages
            return [replace(order, dedupe_key=f"{TENANT}/race-{number}")]
        case "bad-topic":
            return [replace(order, topic="Order placed")]
        case "no-topic":
            return [replace(order, topic="")]
        case "bad-tenant":
            return [replace(order, dedupe_key=f"another/python-{number}")]
        case _:
            return [order]


def main():
    if len(sys.argv) < 4:
        sys.exit("usage: producer.py function|insert MODE ORDER…")
    way = by_insert if sys.argv[1] == "insert" else by_function
    with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as db:
        for number in map(int, sys.argv[3:]):
            for order in attempts(sys.argv[2], number):
                try:
                    event, new = place(db, way, order)
                    print(number, "new" if new else "known", event)
                except SoldOut:
                    print(number, "sold out")
                except psycopg.Error as failure:
                    print(number, "refused", refused(failure))


if __name__ == "__main__":
    main()
