"""Headgate: a consumer-group coordinator that speaks the Kafka protocol.

`headgate.run()` gives a test or a script a broker of its own:

    with headgate.run() as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
"""

from headgate.broker import Broker, BrokerFailed, run

__all__ = ["Broker", "BrokerFailed", "__version__", "run"]

__version__ = "0.1.0"
