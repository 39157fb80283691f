"""Looks at RabbitMQ with pika, for tests: rabbitmq.py ADDRESS ACTION ARGUMENTS."""

import base64
import json
import sys

import pika


def exchange(channel, name, kind="topic"):
    channel.exchange_declare(name, kind, durable=True)


def queue(channel, name, arguments="{}"):
    channel.queue_declare(name, durable=True, arguments=json.loads(arguments))


def bind(channel, queue, exchange, key):
    channel.queue_bind(queue, exchange, key)


def place(channel, name):
    """An exchange, and a queue of the same name that gets all of it."""
    exchange(channel, name)
    queue(channel, name)
    bind(channel, name, name, "#")


def delete_exchange(channel, name):
    channel.exchange_delete(name)


def read(channel, queue):
    """All that is in a queue, one object per line. It stays there."""
    while True:
        method, properties, body = channel.basic_get(queue)
        if method is None:
            return
        said = {name: value for name, value in vars(properties).items() if value is not None}
        said["headers"] = properties.headers or {}
        line = {
            "exchange": method.exchange,
            "routing_key": method.routing_key,
            "properties": said,
            "body": base64.b64encode(body).decode(),
        }
        print(json.dumps(line))


def main(address, *arguments):
    connection = pika.BlockingConnection(pika.URLParameters(address))
    channel = connection.channel()
    # Several actions, with a dash between them.
    action = []
    for argument in [*arguments, "-"]:
        if argument != "-":
            action.append(argument)
        elif action:
            globals()[action[0]](channel, *action[1:])
            action = []
    connection.close()


main(*sys.argv[1:])
