"""Reads a stream with nats-py: the URL, and the name of the stream. Prints one JSON object per message."""
import asyncio, base64, json, sys
import nats

async def main():
    url, stream = sys.argv[1:3]
    client = await nats.connect(url, max_reconnect_attempts=20, reconnect_time_wait=0.2)
    jetstream = client.jetstream()
    state = (await jetstream.stream_info(stream)).state
    subscription = await jetstream.subscribe(
        ">", stream=stream, ordered_consumer=True, pending_msgs_limit=-1, pending_bytes_limit=-1
    )
    for _ in range(state.messages):
        message = await subscription.next_msg(timeout=20)
        body = base64.b64encode(message.data).decode()
        print(json.dumps({"subject": message.subject, "headers": message.headers or {}, "body": body}))
    await client.close()

asyncio.run(main())
