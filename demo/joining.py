"""The worker that joins flights with the names of their airlines: `python -m demo.joining ADDRESS`.

It reads flights with aiokafka, writes them with the name of the airline to a second topic, and commits its
offsets, all in one transaction for each batch. When its standard input closes, it ends. If it is killed, the
next worker of this name ends the transaction that it left open, and reads its flights again.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRecord, TopicPartition
from aiokafka.errors import KafkaError, ProducerFenced

from demo.flights import airlines
from demo.members import is_closed
from demo.story import JOINED, JOINER, TOPIC

FLIGHTS_PER_TRANSACTION = 4_000
_POLL_MS = 200

Flights = dict[TopicPartition, list[ConsumerRecord[bytes, bytes]]]


class Joiner:
    """One worker, from its first transaction to its last."""

    def __init__(self, address: str) -> None:
        self._airlines = airlines()
        self._consumer = AIOKafkaConsumer(
            TOPIC,
            bootstrap_servers=address,
            group_id=JOINER,
            group_instance_id=JOINER,  # a new worker takes the place of one that was killed at once
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
        )
        self._producer = AIOKafkaProducer(
            bootstrap_servers=address, transactional_id=JOINER, compression_type="lz4", max_batch_size=1 << 18
        )

    async def work(self, is_over: asyncio.Event) -> None:
        """Join flights until it is over. The start ends what an earlier worker has left open."""
        await self._producer.start()
        await self._consumer.start()
        while not is_over.is_set():
            flights = await self._consumer.getmany(timeout_ms=_POLL_MS, max_records=FLIGHTS_PER_TRANSACTION)
            if not flights:
                continue
            try:
                await self._join(flights)
            except ProducerFenced:
                raise
            except KafkaError as problem:  # the transaction is aborted
                print(f"once more: {problem!r}", file=sys.stderr)
                await self._consumer.seek_to_committed()
        await self._consumer.stop()
        await self._producer.stop()

    async def _join(self, flights: Flights) -> None:
        """Write the joined flights and commit the offsets after them, in one transaction."""
        async with self._producer.transaction():
            for each in flights.values():
                for flight in each:
                    await self._producer.send(JOINED, self._joined(flight.value or b""), flight.key)
            after = {place: each[-1].offset + 1 for place, each in flights.items()}
            await self._producer.send_offsets_to_transaction(after, JOINER)

    def _joined(self, flight: bytes) -> bytes:
        name = self._airlines[json.loads(flight)["carrier"]]
        return flight[:-1] + b',"airline":' + json.dumps(name).encode() + b"}"


async def run(address: str) -> None:
    """Work until the standard input closes or SIGTERM comes."""
    is_over = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, is_over.set)

    def look() -> None:
        if is_closed(sys.stdin):
            is_over.set()

    loop.add_reader(sys.stdin, look)
    await Joiner(address).work(is_over)


if __name__ == "__main__":
    asyncio.run(run(*sys.argv[1:]))
