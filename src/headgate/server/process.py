"""The server process: locks the data directory, starts the node, listens, and stops cleanly on a signal."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import platform
import resource
import signal
import socket
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import uvloop

from headgate.domain.ids import GROUP_OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTION_STATE_TOPIC, TopicName
from headgate.domain.settings import BROKER_SETTINGS, Layer, Settings
from headgate.log.filesystem import OsFileSystem, OsLock
from headgate.runtime.clock import Clock
from headgate.runtime.failures import on_loop_exception
from headgate.server import log_lines
from headgate.server.listener import Listener
from headgate.server.memory import collect_cycles_rarely, give_back_large_blocks
from headgate.server.node import BrokerNode
from headgate.server.process_gauges import Build, process_gauges
from headgate.server.scraping import metrics_server
from headgate.server.supervision import READY, STOPPING, tell_supervisor
from headgate.topics.catalogue import CatalogueCorrupt
from headgate.topics.unfinished_import import refuse_unfinished_import

logger = logging.getLogger(__name__)

Address = tuple[str, int]

LOCK_NAME = ".lock"
LOOK_AFTER_DIRECTORY_SECONDS = 1.0
LOOK_AFTER_PARENT_SECONDS = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions:
    """The options of `headgate serve`."""

    data_dir: Path
    listen: Address
    advertise: Address | None
    metrics_listen: Address | None
    settings: Settings
    with_parent: bool
    """Whether to stop when standard input is closed, or the parent process is gone."""
    log_levels: log_lines.LogLevels
    log_as_json: bool
    build: Build


def run_server(options: ServeOptions) -> None:
    """Serve until SIGTERM or SIGINT, or until the terminal is closed. Raises OSError when directory or
    address is not available. A taken address is refused before the directory is touched or read.
    """
    log_lines.configure(options.log_levels, options.log_as_json)
    _allow_many_files()
    for option, address in (("--listen", options.listen), ("--metrics-listen", options.metrics_listen)):
        if address is not None:
            _refuse_taken(option, address)
    try:
        options.data_dir.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise OSError(_not_a_directory(options.data_dir)) from None
    filesystem = OsFileSystem()
    filesystem.sync_directory(options.data_dir.absolute().parent)
    try:
        lock = filesystem.lock(options.data_dir / LOCK_NAME)
    except BlockingIOError:
        raise OSError(
            f"{options.data_dir} is in use by another headgate process; stop it, or use another --data-dir"
        ) from None
    try:
        refuse_unfinished_import(filesystem, options.data_dir)
        uvloop.run(_serve(options, filesystem, lock))
    except CatalogueCorrupt as problem:
        raise OSError(f"{options.data_dir}: {problem}") from None
    finally:
        lock.release()


def _not_a_directory(path: Path) -> str:
    if path.is_symlink() and not path.exists():
        return f"{path} is a link to {path.readlink()}, which does not exist: is its disk mounted?"
    return f"{path} is a file; a directory is expected with --data-dir"


_ADVICE = {
    errno.EADDRINUSE: " by another program (`ss -ltnp` shows which): stop it, or use another port",
    errno.EADDRNOTAVAIL: ": this machine has no such address",
    errno.EACCES: ": ports below 1024 need a right of their own (CAP_NET_BIND_SERVICE)",
}
"""What follows the system's message about an address."""


def _refuse_taken(option: str, address: Address) -> None:
    """Raise OSError if no socket like the server's can be bound to the address."""
    for family, kind, protocol, _, place in socket.getaddrinfo(*address, type=socket.SOCK_STREAM):
        if family == socket.AF_INET6 and not socket.has_dualstack_ipv6():
            continue  # the loop skips it, too
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            try:
                probe.bind(place)
            except OSError as problem:
                host, port = address
                advice = _ADVICE.get(problem.errno or 0, "")
                raise OSError(f"{option} {host}:{port}: {problem.strerror}{advice}") from problem


def _reachable(host: str) -> str:
    """Return the host that clients connect to when the server listens on `host`, which may be a wildcard."""
    return socket.gethostname() if host in ("0.0.0.0", "::") else host


def _allow_many_files() -> None:
    """Raise the limit of descriptors to its maximum: every connection and every open log takes one."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


class DirectoryGone(OSError):
    """The data directory, its lock or a log was removed or replaced under the running server."""


async def _serve(options: ServeOptions, filesystem: OsFileSystem, lock: OsLock) -> None:
    stable_lock = lock if lock.is_at(options.data_dir / LOCK_NAME) else None  # without stable inode numbers
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(on_loop_exception)
    for number in (signal.SIGTERM, signal.SIGINT):
        if signal.getsignal(number) is not signal.SIG_IGN:
            loop.add_signal_handler(number, stop.set)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup ignores it
        loop.add_signal_handler(signal.SIGHUP, stop.set if _has_terminal() else _ignore_hangup)
    if options.with_parent:
        loop.add_reader(sys.stdin.fileno(), _stop_at_end_of_input, stop)
    _log_start(options)
    node = BrokerNode(filesystem, options.data_dir, options.settings, Clock())
    listener = Listener(node)
    listener.metrics.add_gauges(process_gauges(options.build, options.data_dir))
    async with contextlib.AsyncExitStack() as stack:
        if options.with_parent:
            stack.callback(loop.create_task(_stop_without_parent(stop)).cancel)
        try:
            served = metrics_server(options.metrics_listen, listener.metrics, node.not_ready)
            await stack.enter_async_context(served)
        except OSError:
            node.close()
            raise
        await _serve_node(options, node, listener, stable_lock, stop)


async def _serve_node(
    options: ServeOptions, node: BrokerNode, listener: Listener, lock: OsLock | None, stop: asyncio.Event
) -> None:
    """Start the node and serve until `stop` is set. Without a lock the directory is not watched."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    if not await _start_unless_stopped(node, stop):
        node.close()
        logger.info("stopped while it was starting")
        return
    give_back_large_blocks()
    collect_cycles_rarely()
    watch = loop.create_task(_watch_directory(node, lock, stop)) if lock is not None else None
    try:
        host, port = await listener.listen(*options.listen)
        node.advertised_host, node.advertised_port = options.advertise or (_reachable(host), port)
        _log_stored(options.settings)
        _log_without_effect(node, options.settings)
        _log_ready(node, loop.time() - began)
        with node.watch.watching(loop):
            print(f"headgate is listening on {host}:{port}", flush=True)
            tell_supervisor(READY)
            await stop.wait()
            tell_supervisor(STOPPING)
            logger.info("stopping")
    finally:
        if watch is not None:
            watch.cancel()
        listener.stop_accepting()
        node.close()
        await listener.close()
    gone = watch.result() if watch is not None and watch.done() and not watch.cancelled() else None
    if gone is None and lock is not None and not lock.is_at(options.data_dir / LOCK_NAME):
        gone = options.data_dir
    if gone is not None:
        raise DirectoryGone(f"{gone} was removed or replaced while the server ran")
    logger.info("stopped")


def _has_terminal() -> bool:
    """Return whether a terminal started the server: SIGHUP then says that it was closed."""
    try:
        return os.isatty(sys.stdin.fileno())
    except (OSError, ValueError):  # it has no standard input
        return False


def _ignore_hangup() -> None:
    logger.info(
        "SIGHUP is ignored",
        extra={"then": "the log goes to standard error as before, and SIGTERM stops the server"},
    )


def _log_start(options: ServeOptions) -> None:
    """Log what runs, where, and with which settings."""
    build, settings = options.build, options.settings
    logger.info(
        "starting",
        extra={
            "version": build.version,
            "compiled": build.is_compiled,
            "python": platform.python_version(),
            "pid": os.getpid(),
            "data_dir": options.data_dir.absolute(),
        },
    )
    for name, setting in BROKER_SETTINGS.items():
        layer, value = next(settings.values_of(name), (Layer.DEFAULT, None))
        # A setting may be given with its default value: `headgate import` advises to give node.id.
        if layer is not Layer.DEFAULT and value != setting.default:
            default = None if setting.default is None else setting.format(setting.default)
            fields = {"setting": name, "value": setting.format(value), "default": default}
            logger.info("setting differs from its default", extra=fields)


def _log_stored(settings: Settings) -> None:
    """Log the settings that were changed at run time; as a warning if the start was given another value."""
    for name, setting in BROKER_SETTINGS.items():
        values = dict(settings.values_of(name))
        layer = next(iter(values), Layer.DEFAULT)
        if layer in (Layer.THIS_BROKER, Layer.ALL_BROKERS):
            fields = {"setting": name, "value": setting.format(values[layer])}
            level = logging.INFO
            if values.get(Layer.START, values[layer]) != values[layer]:
                level = logging.WARNING
                fields["given_at_start"] = setting.format(values[Layer.START])
            logger.log(level, "a stored setting is in force", extra=fields)


_PARTITION_COUNTS: Mapping[str, TopicName] = {
    "offsets.topic.num.partitions": GROUP_OFFSETS_TOPIC,
    "transaction.state.log.num.partitions": TRANSACTION_STATE_TOPIC,
    "share.coordinator.state.topic.num.partitions": SHARE_STATE_TOPIC,
}


def _log_without_effect(node: BrokerNode, settings: Settings) -> None:
    """Log the numbers of partitions that were given for topics that exist with another number."""
    for name, topic_name in _PARTITION_COUNTS.items():
        layer, value = next(settings.values_of(name), (Layer.DEFAULT, None))
        topic = node.topics.by_name(topic_name)
        if layer is Layer.START and topic is not None and topic.partition_count != value:
            fields = {
                "setting": name,
                "value": value,
                "topic": topic_name,
                "partitions": topic.partition_count,
            }
            logger.warning("a setting has no effect: its topic exists", extra=fields)


def _log_ready(node: BrokerNode, seconds: float) -> None:
    """Log what was loaded, and how long it took."""
    shards = node.coordinator.shards()
    logger.info(
        "ready",
        extra={
            "address": f"{node.advertised_host}:{node.advertised_port}",
            "cluster_id": node.cluster_id,
            "last_stop": node.topics.last_stop,
            "loaded_seconds": round(seconds, 3),
            "topics": len(node.topics.all()),
            "groups": sum(shard.groups.count() for shard in shards),
            "offsets": sum(shard.offset_count for shard in shards),
            "durability": node.settings["headgate.durability"],
        },
    )


async def _watch_directory(node: BrokerNode, lock: OsLock, stop: asyncio.Event) -> Path:
    """Stop the server when its directory, the lock or a log in it was removed. Return the missing path.

    The server would continue to write to files without a name, and another server could start there.
    """
    data_dir = node.topics.data_dir
    while lock.is_at(data_dir / LOCK_NAME):
        gone = node.topics.misplaced()
        if gone is not None:
            logger.error("a log was removed or replaced", extra={"path": gone, "then": "the server stops"})
            stop.set()
            return gone
        await asyncio.sleep(LOOK_AFTER_DIRECTORY_SECONDS)
    logger.error(
        "the data directory was removed or replaced", extra={"path": data_dir, "then": "the server stops"}
    )
    stop.set()
    return data_dir


async def _start_unless_stopped(node: BrokerNode, stop: asyncio.Event) -> bool:
    """Start the node. Return False if a signal arrived first: reading long logs takes long."""
    loop = asyncio.get_running_loop()
    starting, stopping = loop.create_task(node.start()), loop.create_task(stop.wait())
    await asyncio.wait((starting, stopping), return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if starting.done():
        starting.result()
        return True
    starting.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await starting
    return False


async def _stop_without_parent(stop: asyncio.Event) -> None:
    """Stop when the parent is gone. Its end closes standard input, unless a child of it has a copy."""
    parent = os.getppid()
    while os.getppid() == parent:
        await asyncio.sleep(LOOK_AFTER_PARENT_SECONDS)
    logger.info("the parent process is gone")
    stop.set()


def _stop_at_end_of_input(stop: asyncio.Event) -> None:
    """Stop when the other end of standard input is closed. Input is discarded."""
    descriptor = sys.stdin.fileno()
    if not os.read(descriptor, 4096):
        asyncio.get_running_loop().remove_reader(descriptor)
        stop.set()
