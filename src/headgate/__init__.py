"""Headgate: a consumer-group coordinator that speaks the Kafka protocol.

`headgate.run()` gives a test or a script a broker of its own:

    with headgate.run() as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
"""

__all__ = ["Broker", "BrokerFailed", "__version__", "run"]

__version__ = "0.1.0"

TYPE_CHECKING = False
if TYPE_CHECKING:
    from headgate.broker import Broker, BrokerFailed, run
else:

    def __dir__() -> list[str]:
        """Return also what is imported when it is used, for completion."""
        return sorted({*globals(), *__all__})

    def __getattr__(name: str) -> object:
        """Import the broker when it is used: Ctrl-C while a command starts would be a traceback otherwise."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from headgate import broker

        return getattr(broker, name)
