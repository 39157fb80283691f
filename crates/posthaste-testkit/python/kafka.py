"""Kafka as others see it: what is in a topic, and who may do what."""

import base64
import json
import sys

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)


def text(data):
    return None if data is None else base64.b64encode(data).decode()


def records(brokers, topic):
    """All records that are there now, by partition in their order."""
    consumer = Consumer({
        "bootstrap.servers": brokers,
        "group.id": "posthaste-tests",
        "enable.auto.commit": False,
        "fetch.message.max.bytes": 50_000_000,
    })
    partitions = consumer.list_topics(topic, timeout=30).topics[topic].partitions
    ends, begin = {}, []
    for partition in partitions:
        place = TopicPartition(topic, partition)
        low, high = consumer.get_watermark_offsets(place, timeout=30)
        if high > low:
            ends[partition] = high
            begin.append(TopicPartition(topic, partition, low))
    consumer.assign(begin)
    found = []
    while ends:
        record = consumer.poll(1.0)
        if record is None:
            continue
        if record.error():
            raise SystemExit(str(record.error()))
        if record.offset() < ends.get(record.partition(), 0):
            found.append(record)
            if record.offset() + 1 == ends[record.partition()]:
                del ends[record.partition()]
    consumer.close()
    return sorted(found, key=lambda record: (record.partition(), record.offset()))


def read(brokers, topic):
    for record in records(brokers, topic):
        print(json.dumps({
            "partition": record.partition(),
            "key": text(record.key()),
            "value": text(record.value()),
            "headers": [[name, text(value)] for name, value in record.headers() or []],
        }))


def cloud_events(brokers, topic, mode):
    """The same, as an independent library reads it."""
    from cloudevents.kafka import KafkaMessage, from_binary, from_structured

    for record in records(brokers, topic):
        message = KafkaMessage(
            headers=dict(record.headers() or []), key=record.key(), value=record.value()
        )
        event = {"binary": from_binary, "structured": from_structured}[mode](message)
        data = event.get_data()
        data = json.loads(data) if isinstance(data, bytes) else data
        print(json.dumps({"attributes": dict(event.get_attributes()), "data": data}, default=str))


def grant(brokers, user, topic, operations="WRITE,DESCRIBE"):
    """Lets a user write to a topic, or do something else with it."""
    admin = AdminClient({"bootstrap.servers": brokers})
    bindings = [
        AclBinding(
            ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, f"User:{user}", "*",
            operation, AclPermissionType.ALLOW,
        )
        for operation in (AclOperation[name] for name in operations.split(","))
    ]
    for done in admin.create_acls(bindings).values():
        done.result(30)


{"read": read, "cloud_events": cloud_events, "grant": grant}[sys.argv[1]](*sys.argv[2:])
