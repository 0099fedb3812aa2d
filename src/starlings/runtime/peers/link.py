"""The link to one neighbour: connects, backs off, and connects again, as long as the run lasts.

What goes wrong is of three kinds. A connection that ends, or bytes that do not belong there, are
mended by connecting again. So is a neighbour that is refused, or that refuses this site: before
it is known who is at the other end, anybody may be, and none of them may end a run; `state` says
what to do about it. Only what a neighbour says that is known for certain, and that connecting
again does not mend, ends the link for good.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import random
import threading
import time
from collections.abc import Sequence

from starlings.errors import PeerRefusedError, ProtocolError, SiteError
from starlings.runtime.peers.carriers import Carrier, DirectCarrier, RelayCarrier
from starlings.runtime.peers.link_parts import Messages, first_of
from starlings.runtime.peers.link_state import LinkState
from starlings.runtime.peers.pipes import Pipe, SilenceError, Timing, open_pipe
from starlings.runtime.peers.tls import Identity, SecureChannel
from starlings.runtime.peers.ways import DirectWay, RelayWay, Way

logger = logging.getLogger(__name__)

SHORTEST_WAIT, LONGEST_WAIT = 0.1, 10.0
"""Seconds from a failure to the next attempt: after the first one, and at most."""
LASTING = 0.5
"""Seconds for which a connection must last to be no failure, at least."""
LONELY = 3.0, 9.0
"""Seconds for which a neighbour is awaited at one of several relays: a random time in between."""
MOST_PATIENCE = 32
"""How many times its patience a link has at most, where a slow network needs it."""
PARTING = 1.0
"""Seconds for telling a neighbour why its link has ended for good."""


class Link:
    """The link to one neighbour, in the loop of one thread."""

    def __init__(
        self, me: Identity, neighbour: str, ways: Sequence[Way], stream: Messages, timing: Timing
    ) -> None:
        self.me, self.neighbour, self.stream, self.timing = me, neighbour, stream, timing
        self.failure: SiteError | None = None
        self._ways = [way for way in ways if isinstance(way, RelayWay) or way.connects]
        self._way = str(next(iter(ways), ""))
        self._turns = itertools.cycle(self._ways or [None])
        self._turn = next(self._turns)
        self._pipe: Pipe | None = None
        self._offer: Pipe | None = None
        self._offered, self._awake = asyncio.Event(), asyncio.Event()
        self._is_woken, self._is_ending = False, False
        self._loop, self._thread = asyncio.get_running_loop(), threading.get_ident()
        self._failures = self._attempts = self._connections = 0
        self._bytes_sent = self._bytes_received = 0
        self._num_arrived = 0
        """Frames that arrived on this connection; the first one only says who goes on where."""
        self._patience = timing.patience
        self._since, self._doing, self._error, self._is_refused = time.time(), "", "", False
        stream.wake = self.wake

    def wake(self) -> None:
        """Have sent what is due. Any thread may call this."""
        if self._is_woken:
            return
        self._is_woken = True
        if threading.get_ident() == self._thread:
            self._awake.set()
        else:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._awake.set)

    def offer(self, pipe: Pipe) -> None:
        """Take a pipe that the neighbour has opened, in place of any other."""
        if self._offer is not None:
            self._offer.abort()
        if self.failure is not None or self._is_ending:
            pipe.abort()
            return
        self._offer = pipe
        self._offered.set()

    def refused(self, error: Exception) -> None:
        """Hear that a connection to this site was refused, which may have been the neighbour's."""
        if self._pipe is None:
            self._note(error)

    def end(self) -> None:
        """End the link when everything that is due has been sent."""
        self._is_ending = True
        self._awake.set()
        if self._pipe is None:
            self._offered.set()

    def state(self) -> LinkState:
        """How the link is. Any thread may call this."""
        pipe = self._pipe
        return LinkState(
            neighbour=self.neighbour,
            is_connected=pipe is not None,
            since=self._since,
            doing=self._doing,
            way=self._way,
            attempts=self._attempts,
            connections=self._connections,
            last_error=self._error,
            is_refused=self._is_refused,
            failure=self.failure,
            bytes_sent=self._bytes_sent + (pipe.bytes_sent if pipe else 0),
            bytes_received=self._bytes_received + (pipe.bytes_received if pipe else 0),
            round_trip=pipe.round_trip if pipe else None,
            last_heard=max(0.0, self._loop.time() - pipe.last_heard) if pipe else None,
        )

    async def keep(self) -> None:
        """Keep the neighbour connected until `end`, or until the link fails for good."""
        try:
            while not self._is_ending:
                pipe = self._taken_offer()
                if pipe is None:
                    await first_of(self._connect(), self._offered.wait())
                else:
                    await self._use(pipe)
        except SiteError as error:
            self._fail(error)
        except Exception as error:
            logger.exception("the link to %s ended", self.neighbour)
            self._fail(SiteError(f"the link to {self.neighbour} ended: {error!r}."))
        finally:
            self._doing = "ended"
            if self._offer is not None:
                self._offer.abort()

    def _taken_offer(self) -> Pipe | None:
        pipe, self._offer = self._offer, None
        if not self._is_ending:
            self._offered.clear()
        return pipe

    async def _connect(self) -> None:
        """Try the ways in turn until one of them leads to the neighbour."""
        while True:
            if self._failures:
                self._doing = f"tries {self.neighbour} again soon"
                await asyncio.sleep(self._wait() * random.uniform(0.5, 1.0))
            if self._turn is None:
                self._doing = f"waits for {self.neighbour} to connect"
                await asyncio.Event().wait()
            self._attempts += 1
            try:
                self.offer(await self._opened())
                return
            except (OSError, ProtocolError, SiteError) as error:
                self._failures += 1
                self._note(error)
            except _NotThereError:
                pass
            self._turn = next(self._turns)

    async def _opened(self) -> Pipe:
        """A pipe by the way whose turn it is."""
        way = self._turn
        assert way is not None
        self._way, self._doing = str(way), f"connects by {way}"
        carrier: Carrier
        if isinstance(way, DirectWay):
            assert way.connects is not None
            channel = SecureChannel(self.me, [self.neighbour], is_server=False)
            carrier = await DirectCarrier.open(*way.connects)
        else:
            is_server = self.me.name.encode() < self.neighbour.encode()
            channel = SecureChannel(self.me, [self.neighbour], is_server=is_server)
            carrier = await self._met(await RelayCarrier.open(way, self.me.name, self.neighbour))
        self._doing = f"finds out whether {self.neighbour} is there"
        return await open_pipe(carrier, channel, str(way), self.timing, self._patience)

    async def _met(self, carrier: RelayCarrier) -> Carrier:
        """The carrier when the neighbour is at the relay too."""
        self._doing = f"waits for {self.neighbour} at {carrier.where}"
        is_only = len(self._ways) == 1
        try:
            async with asyncio.timeout(None if is_only else random.uniform(*LONELY)):
                await carrier.paired()
        except TimeoutError:
            carrier.abort()
            raise _NotThereError from None
        except BaseException:
            carrier.abort()
            raise
        return carrier

    async def _use(self, pipe: Pipe) -> None:
        """Exchange messages until the pipe ends."""
        began, self._pipe, self._way = self._loop.time(), pipe, pipe.way
        self._num_arrived = 0
        self._became(f"connected with {self.neighbour}", connected=True)
        try:
            work = (self._read(pipe), self._write(pipe), self._beat(pipe), self._offered.wait())
            await first_of(*work)
            if self._is_ending:
                await pipe.close()
        except (OSError, ProtocolError) as error:
            self._note(error)
        except SiteError:
            await self._part(pipe)
            raise
        finally:
            pipe.abort()
            self._disconnected(pipe)
        if self._loop.time() - began > max(LASTING, 2 * self._wait()):
            self._failures = 0
        else:
            self._failures = 1 if self._num_arrived > 1 else self._failures + 1

    def _disconnected(self, pipe: Pipe) -> None:
        self._pipe = None
        self._bytes_sent += pipe.bytes_sent
        self._bytes_received += pipe.bytes_received
        self._became("", connected=False)
        self.stream.disconnected()

    async def _read(self, pipe: Pipe) -> None:
        while True:
            messages = await pipe.receive(self.stream.largest_frame)
            for message in messages:
                self.stream.arrived(message)
                self._num_arrived += 1
            if self._num_arrived > 1:  # more than the first frame, which comes on slow ways too
                self._patience = self.timing.patience
            if pipe.has_signs:
                self._awake.set()

    async def _write(self, pipe: Pipe) -> None:
        await pipe.send([self.stream.opening()])
        while True:
            self._awake.clear()
            self._is_woken = False
            frames = self.stream.due()
            if frames or pipe.has_signs:
                await pipe.send(frames)
            elif self._is_ending:
                return
            else:
                await self._awake.wait()

    async def _beat(self, pipe: Pipe) -> None:
        """Say that this end is alive, and look whether the other is."""
        while True:
            pipe.ping()
            self._awake.set()
            await asyncio.sleep(min(self.timing.heartbeat, self._patience / 4))
            silence = self._loop.time() - pipe.last_heard
            if silence > self._patience:
                raise SilenceError(f"nothing came from {self.neighbour} for {silence:.0f} s.")

    async def _part(self, pipe: Pipe) -> None:
        """Send what the stream has to say before the link ends for good."""
        with contextlib.suppress(OSError):  # TimeoutError is one
            async with asyncio.timeout(PARTING):
                await pipe.send(self.stream.due())
                await pipe.close()

    def _wait(self) -> float:
        """Seconds until the next attempt, at most, after so many failures."""
        doublings = min(self._failures - 1, 10)
        return min(SHORTEST_WAIT * 2**doublings, LONGEST_WAIT) if self._failures else 0.0

    def _became(self, doing: str, connected: bool) -> None:
        self._doing, self._since = doing, time.time()
        if connected:
            self._attempts, self._is_refused = 0, False
            self._connections += 1
        logger.info("%s: %s", self.neighbour, doing or "not connected")

    def _note(self, error: BaseException) -> None:
        """Keep an error for `state`, and tell it once; after a silence have more patience."""
        if isinstance(error, SilenceError):
            self._patience = min(2 * self._patience, MOST_PATIENCE * self.timing.patience)
        text = str(error) or type(error).__name__
        if text != self._error:
            logger.warning("%s: %s", self.neighbour, text)
        self._error, self._is_refused = text, isinstance(error, PeerRefusedError)

    def _fail(self, error: SiteError) -> None:
        self._note(error)
        self.failure = error
        self.stream.failed(error)


class _NotThereError(Exception):
    """The neighbour was not at a relay, and may be at another."""
