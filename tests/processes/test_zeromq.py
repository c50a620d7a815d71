"""Frames and answers over real sockets, beside strangers, garbage and peers that vanish."""

from __future__ import annotations

import os
import random
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress

import msgspec
import pytest
import zmq

from mainspring.clock import monotonic_s, monotonic_us
from mainspring.errors import InvalidInput
from mainspring.queue import worker_side
from mainspring.queue.answers import VERSION, Answer, Beacon, Envelope, Hints, Returned, encode
from mainspring.queue.leader_side import LeaderSockets
from mainspring.queue.worker_side import WorkerSockets

LEADER, WORKER = 7, 11
GREETING = b"\xff" + bytes(7) + b"\x01\x7f\x03\x00NULL" + bytes(48)
READY = b"\x04\x1a\x05READY\x0bSocket-Type\x00\x00\x00\x04PUSH"


def envelope(seq: int, answer_to: str = "tcp://127.0.0.1:1", version: int = VERSION) -> bytes:
    return encode(Envelope(version, LEADER, WORKER, seq, answer_to))


def beacon(received_seq: int, tasks: tuple[str, ...] = ("t",)) -> Beacon:
    return Beacon(VERSION, WORKER, LEADER, 100, received_seq, (), (), ("default",), tasks, False)


class Pair:
    """A leader and a worker that know each other."""

    def __init__(self) -> None:
        self.leader_dropped: Counter[str] = Counter()
        self.worker_dropped: Counter[str] = Counter()
        self.leader = LeaderSockets("127.0.0.1", on_dropped=self._leader_drop)
        self.worker = WorkerSockets("127.0.0.1", on_dropped=self._worker_drop)
        assert self.leader.connect(WORKER, self.worker.address)

    def _leader_drop(self, reason: str) -> None:
        self.leader_dropped[reason] += 1

    def _worker_drop(self, reason: str) -> None:
        self.worker_dropped[reason] += 1

    def deliver(self, seq: int) -> list[int]:
        """Send one frame and return the seqs that come out, up to it."""
        until(lambda: self.leader.send(WORKER, envelope(seq, self.leader.address), b"frame"))
        seqs: list[int] = []
        while seq not in seqs:
            assert self.worker.wait(5_000_000), f"frame {seq} did not arrive"
            seqs += [got.seq for got, _ in self.worker.receive(100)]
        return seqs

    def answer(self, received_seq: int) -> list[int]:
        """Send one beacon and return the seqs that come out, up to it."""
        said = beacon(received_seq)
        until(lambda: self.worker.answer(LEADER, self.leader.address, said))
        seqs: list[int] = []
        while received_seq not in seqs:
            assert self.leader.wait(5_000_000), f"beacon {received_seq} did not arrive"
            seqs += [got.received_seq for got in self.leader.receive(100)]  # type: ignore[union-attr]
        return seqs

    def close(self) -> None:
        self.leader.close()
        self.worker.close()


def until(is_so: Callable[[], bool], seconds: float = 5.0) -> None:
    """Ask again and again, a bounded time."""
    end_s = monotonic_s() + seconds
    pause = threading.Event()
    while not is_so():
        assert monotonic_s() < end_s, "it did not come about in time"
        pause.wait(0.002)


@pytest.fixture
def pair() -> Iterator[Pair]:
    made = Pair()
    yield made
    made.close()


@pytest.fixture
def stranger() -> Iterator[Callable[[str], zmq.Socket[bytes]]]:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    kept = []

    def connected(address: str) -> zmq.Socket[bytes]:
        made = context.socket(zmq.PUSH)
        made.connect(address)
        kept.append(made)
        return made

    yield connected
    context.destroy(linger=0)


def raw(address: str) -> socket.socket:
    host, _, port = address.removeprefix("tcp://").rpartition(":")
    return socket.create_connection((host, int(port)), timeout=5)


def test_a_delivery_arrives_as_it_was_sent(pair: Pair) -> None:
    """Envelope and frame come out byte for byte, and the address in it takes the answer."""
    frame = os.urandom(300_000)
    until(lambda: pair.leader.send(WORKER, envelope(1, pair.leader.address), frame))

    assert pair.worker.wait(5_000_000)
    [(got, bytes_got)] = pair.worker.receive(10)

    assert Envelope(VERSION, LEADER, WORKER, 1, pair.leader.address) == got
    assert frame == bytes_got
    assert pair.answer(1) == [1]


def test_frames_to_one_worker_keep_their_order(pair: Pair) -> None:
    """2,000 frames, with every refusal repeated, come out 1 to 2,000 without a gap."""
    seqs: list[int] = []
    for seq in range(1, 2_001):
        data = envelope(seq)
        while not pair.leader.send(WORKER, data, b"f"):
            seqs += [got.seq for got, _ in pair.worker.receive(64)]
    while len(seqs) < 2_000:
        assert pair.worker.wait(5_000_000)
        seqs += [got.seq for got, _ in pair.worker.receive(64)]

    assert list(range(1, 2_001)) == seqs


def test_receive_takes_no_more_than_its_limit(pair: Pair) -> None:
    """Five frames with a limit of two need three calls; garbage counts against it too."""
    pair.deliver(1)
    for seq in range(2, 7):
        until(lambda seq=seq: pair.leader.send(WORKER, envelope(seq), b"f"))  # type: ignore[misc]
    sizes: list[int] = []
    while sum(sizes) < 5:
        assert pair.worker.wait(5_000_000)
        sizes.append(len(pair.worker.receive(2)))

    assert max(sizes) <= 2


def test_every_kind_of_answer_comes_through(pair: Pair) -> None:
    """A beacon, a return and hints are decoded to the values that were sent."""
    pair.answer(1)
    said: list[Answer] = [
        beacon(2),
        Returned(VERSION, WORKER, LEADER, 3, (5, 6)),
        Hints(VERSION, WORKER, LEADER, (0,), (9,), (1_000,)),
    ]
    for one in said:
        assert pair.worker.answer(LEADER, pair.leader.address, one)
    got: list[object] = []
    while len(got) < 3:
        assert pair.leader.wait(5_000_000)
        got += pair.leader.receive(10)

    assert said == got


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ([b"one"], "parts"),
        ([envelope(1), b"frame", b"third"], "parts"),
        ([envelope(1)] + [b""] * 1_000, "parts"),
        ([b"", b""], "envelope"),
        ([b"\xc1" * 20, b"frame"], "envelope"),
        ([envelope(1, version=VERSION + 1), b"frame"], "envelope"),
        ([msgspec.msgpack.encode(["envelope", VERSION, 0, 1, 1, "a"]), b"frame"], "envelope"),
        ([msgspec.msgpack.encode(["envelope", VERSION, 1, 1, 1, "a", 1]), b"frame"], "envelope"),
        ([b"\xdd\xff\xff\xff\xff" + b"x" * 50, b"frame"], "envelope"),
        ([b"\x91" * 200_000, b"frame"], "envelope"),
    ],
)
def test_a_bad_delivery_is_counted_and_dropped(
    pair: Pair,
    stranger: Callable[[str], zmq.Socket[bytes]],
    parts: list[bytes],
    reason: str,
) -> None:
    """It costs one count of the right kind, and the next good frame arrives."""
    stranger(pair.worker.address).send_multipart(parts)
    seqs: list[int] = []
    end_s = monotonic_s() + 5
    while not pair.worker_dropped and monotonic_s() < end_s:
        pair.worker.wait(100_000)
        seqs += [got.seq for got, _ in pair.worker.receive(10)]

    assert ({reason: 1}, []) == (pair.worker_dropped, seqs)
    assert pair.deliver(1) == [1]


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ([encode(beacon(1)), b"second"], "parts"),
        ([b""], "answer"),
        ([encode(beacon(1))[:-1]], "answer"),
        ([encode(beacon(1)) + b"\x00"], "answer"),
        ([envelope(1)], "answer"),
        ([encode(msgspec.structs.replace(beacon(1), version=9))], "answer"),
        ([encode(Hints(VERSION, WORKER, LEADER, (1, 2), (1,), (1,)))], "answer"),
    ],
)
def test_a_bad_answer_is_counted_and_dropped(
    pair: Pair,
    stranger: Callable[[str], zmq.Socket[bytes]],
    parts: list[bytes],
    reason: str,
) -> None:
    """It costs one count of the right kind, and the next good beacon arrives."""
    stranger(pair.leader.address).send_multipart(parts)
    answers: list[object] = []
    end_s = monotonic_s() + 5
    while not pair.leader_dropped and monotonic_s() < end_s:
        pair.leader.wait(100_000)
        answers += pair.leader.receive(10)

    assert ({reason: 1}, []) == (pair.leader_dropped, answers)
    assert pair.answer(3) == [3]


@pytest.mark.slow
def test_ten_thousand_random_deliveries_are_counted_one_by_one(
    pair: Pair, stranger: Callable[[str], zmq.Socket[bytes]]
) -> None:
    """On both sockets, mixed with good traffic, of which nothing is lost."""
    rng = random.Random(20_260_608)
    to_worker, to_leader = stranger(pair.worker.address), stranger(pair.leader.address)
    seqs: list[int] = []
    for index in range(5_000):
        junk = [rng.randbytes(rng.randrange(200)) for _ in range(rng.choice((1, 2, 2, 3)))]
        until(lambda: offered(to_worker, junk))  # noqa: B023
        until(lambda: offered(to_leader, junk[:1]))  # noqa: B023
        if index % 500 == 0:
            seqs += pair.deliver(index + 1)
            pair.answer(index + 1)
        seqs += [got.seq for got, _ in pair.worker.receive(100)]
        pair.leader.receive(100)
    end_s = monotonic_s() + 5
    while pair.worker_dropped.total() + pair.leader_dropped.total() < 10_000:
        assert monotonic_s() < end_s, (pair.worker_dropped, pair.leader_dropped)
        pair.worker.receive(100)
        pair.leader.receive(100)

    assert list(range(1, 5_000, 500)) == seqs
    assert (pair.worker_dropped.total(), pair.leader_dropped.total()) == (5_000, 5_000)


def offered(to: zmq.Socket[bytes], parts: list[bytes]) -> bool:
    """Hand it to libzmq if that is possible without waiting."""
    try:
        to.send_multipart(parts, zmq.DONTWAIT)
    except zmq.Again:
        return False
    return True


@pytest.mark.parametrize("side", ["worker", "leader"])
def test_bytes_that_are_no_zeromq_are_counted(pair: Pair, side: str) -> None:
    """An HTTP request and two hundred random streams: counted, and good traffic flows on.

    Some of the streams pass for ZMTP 1.0 and end as other reasons, but never as a delivery.
    """
    rng = random.Random(5)
    address = getattr(pair, side).address
    for index in range(200):
        with raw(address) as stream, suppress(OSError):
            stream.sendall(rng.randbytes(rng.randrange(1, 4_000)) if index else b"GET / HTTP/1\r\n")
    counted = pair.worker_dropped if side == "worker" else pair.leader_dropped
    got: list[object] = []

    def is_counted() -> bool:
        got.extend(getattr(pair, side).receive(100))
        return counted["handshake"] >= 100

    until(is_counted)
    assert got == []
    assert pair.deliver(1) == [1]
    assert pair.answer(2) == [2]


@pytest.mark.parametrize("side", ["worker", "leader"])
def test_a_claim_of_a_hundred_megabytes_is_cut_off_before_it_is_read(pair: Pair, side: str) -> None:
    """The connection is closed at the claim, memory stays, and good traffic flows on."""
    before = resident_bytes()
    with raw(getattr(pair, side).address) as stream:
        stream.sendall(GREETING + READY)
        got = b""
        while len(got) < 64:  # their greeting
            got += stream.recv(1_000)
        stream.sendall(b"\x02" + (100 << 20).to_bytes(8, "big") + bytes(1_000))
        with suppress(ConnectionResetError):
            while stream.recv(1_000):
                pass

    assert resident_bytes() - before < 20 << 20
    assert pair.deliver(1) == [1]
    assert pair.answer(2) == [2]


def resident_bytes() -> int:
    with open("/proc/self/statm") as file:  # noqa: PTH123
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_a_half_open_connection_disturbs_nobody(pair: Pair) -> None:
    """Peers that connect and say nothing, or only a greeting, do not hold up the others."""
    streams = [raw(pair.worker.address) for _ in range(20)]
    streams += [raw(pair.leader.address) for _ in range(20)]
    for stream in streams[::2]:
        stream.sendall(GREETING)

    assert pair.deliver(1) == [1]
    assert pair.answer(2) == [2]
    for stream in streams:
        stream.close()


def test_a_worker_that_reads_nothing_never_blocks_its_leader(pair: Pair) -> None:
    """Sends say no after a few frames, each within milliseconds; another worker gets its own."""
    other = WorkerSockets("127.0.0.1", on_dropped=pytest.fail)
    pair.leader.connect(12, other.address)
    frame = bytes(1_000_000)
    until(lambda: pair.leader.send(WORKER, envelope(1), frame))
    taken, slowest_us = 1, 0
    refused = 0
    while refused < 50:
        sent_us = monotonic_us()
        is_sent = pair.leader.send(WORKER, envelope(taken + 1), frame)
        slowest_us = max(slowest_us, monotonic_us() - sent_us)
        taken += is_sent
        refused = 0 if is_sent else refused + 1
        threading.Event().wait(0.002)

    assert taken <= 30
    assert slowest_us < 100_000
    until(lambda: pair.leader.send(12, envelope(1), b"f"))
    assert other.wait(5_000_000)
    assert len(other.receive(10)) == 1
    other.close()


def test_a_worker_that_is_gone_is_refused_and_its_place_is_free(pair: Pair) -> None:
    """After its end sends say no; nothing is stored up for whoever binds its port next."""
    pair.deliver(1)
    pair.worker.close()
    until(lambda: not pair.leader.send(WORKER, envelope(2), b"f"))

    port = int(pair.worker.address.rpartition(":")[2])
    pair.worker = WorkerSockets("127.0.0.1", port=port, on_dropped=pytest.fail)

    assert pair.deliver(3) == [3]


def test_answers_reach_a_leader_that_came_back_on_its_address(pair: Pair) -> None:
    """The worker's socket finds it again by itself."""
    pair.answer(1)
    pair.leader.close()
    port = int(pair.leader.address.rpartition(":")[2])
    pair.leader = LeaderSockets("127.0.0.1", port=port, on_dropped=pytest.fail)
    got: list[object] = []
    end_s = monotonic_s() + 5
    while not got:
        assert monotonic_s() < end_s
        pair.worker.answer(LEADER, pair.leader.address, beacon(5))
        pair.leader.wait(20_000)
        got = list(pair.leader.receive(10))

    assert beacon(5) == got[0]


def test_differences_are_kept_for_a_leader_that_is_away_and_beacons_are_not(pair: Pair) -> None:
    """Three returns said to nobody arrive in order before the next beacon; old beacons do not."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"tcp://127.0.0.1:{port}"
    for seq in (1, 2, 3):
        returned = Returned(VERSION, WORKER, 8, seq, (seq,))
        assert not pair.worker.answer(8, address, returned)
        assert not pair.worker.answer(8, address, beacon(seq))
    late = LeaderSockets("127.0.0.1", port=port, on_dropped=pytest.fail)
    until(lambda: pair.worker.answer(8, address, beacon(9)))
    got: list[object] = []
    while beacon(9) not in got:
        assert late.wait(5_000_000)
        got += late.receive(10)

    assert [Returned(VERSION, WORKER, 8, seq, (seq,)) for seq in (1, 2, 3)] == got[:3]
    assert [beacon(9)] == got[3:]
    late.close()


def test_kept_differences_are_bounded_and_counted(pair: Pair) -> None:
    """Beyond the limit the oldest goes, and each one that goes is counted."""
    for seq in range(1, worker_side.RESEND_MAX + 6):
        pair.worker.answer(8, "tcp://127.0.0.1:1", Returned(VERSION, WORKER, 8, seq, (seq,)))

    assert pair.worker_dropped == {"resend": 5}


@pytest.mark.parametrize(
    "address",
    [
        "",
        "tcp://10.0.0.1:5000",
        "tcp://example.org:80",
        "tcp://127.0.0.1",
        "tcp://127.0.0.1:0",
        "tcp://127.0.0.1:70000",
        "tcp://127.0.0.1:-1",
        "tcp://127.0.0.1:80;10.0.0.1:80",
        "ipc:///tmp/x",
        "inproc://x",
        "tcp://127.0.0.1:80/x",
        "tcp://127.0.0.1:\u0661",
    ],
)
def test_an_address_from_the_wire_is_not_trusted(pair: Pair, address: str) -> None:
    """Anything but a loopback host and port is counted and never connected to."""
    assert not pair.worker.answer(8, address, beacon(1))
    assert not pair.leader.connect(99, address)
    assert (pair.worker_dropped, pair.leader_dropped) == ({"address": 1}, {"address": 1})
    assert frozenset() == pair.worker.leader_ids


def test_a_worker_answers_a_bounded_number_of_leaders(pair: Pair) -> None:
    """One more than the limit is counted and gets no socket; forgetting one makes room."""
    for leader in range(1, worker_side.LEADERS_MAX + 2):
        pair.worker.answer(leader, "tcp://127.0.0.1:1", beacon(1))

    assert pair.worker_dropped == {"peers": 1}
    pair.worker.forget(1)
    pair.worker.answer(9_999, "tcp://127.0.0.1:1", beacon(1))
    assert pair.worker_dropped == {"peers": 1}


def test_an_answer_over_the_limit_is_counted_and_not_sent(pair: Pair) -> None:
    """It would end the connection at the other side; the next one of usual size arrives."""
    names = tuple(f"{index:0255d}" for index in range(4_096))
    giant = msgspec.structs.replace(beacon(1, names), queues=names)

    assert not pair.worker.answer(LEADER, pair.leader.address, giant)
    assert pair.worker_dropped == {"oversize": 1}
    assert pair.answer(2) == [2]


@pytest.mark.parametrize("side", ["worker", "leader"])
def test_a_wake_from_another_thread_ends_a_wait_within_5_ms(pair: Pair, side: str) -> None:
    """The best of twenty tries, since another process may hold the machine for one of them."""
    sockets = getattr(pair, side)
    rung_us = 0
    begin = threading.Semaphore(0)

    def ring() -> None:
        nonlocal rung_us
        for _ in range(20):
            begin.acquire()
            threading.Event().wait(0.002)
            rung_us = monotonic_us()
            sockets.wake()

    thread = threading.Thread(target=ring, daemon=True)
    thread.start()
    delays_us: list[int] = []
    for _ in range(20):
        begin.release()
        assert sockets.wait(5_000_000)
        delays_us.append(monotonic_us() - rung_us)
    thread.join()

    assert min(delays_us) < 5_000
    assert sorted(delays_us)[10] < 5_000


def test_many_wakes_are_one_and_an_early_one_is_not_lost(pair: Pair) -> None:
    """A wake before the wait ends it at once; a thousand of them end one wait, not two."""
    for _ in range(1_000):
        pair.leader.wake()

    assert pair.leader.wait(5_000_000)
    assert not pair.leader.wait(0)


def test_a_wake_after_close_does_nothing() -> None:
    """Not even to a descriptor that took the number of the old one."""
    leader = LeaderSockets("127.0.0.1", on_dropped=pytest.fail)
    leader.close()
    fds = [os.eventfd(0, os.EFD_NONBLOCK) for _ in range(8)]
    leader.wake()
    for fd in fds:
        with pytest.raises(BlockingIOError):
            os.eventfd_read(fd)
        os.close(fd)


def test_sockets_refuse_a_second_thread(pair: Pair) -> None:
    """Use from another thread is a bug of ours and an AssertionError; the owner goes on."""
    pair.deliver(1)
    caught: list[BaseException] = []

    def intrude() -> None:
        for call in (lambda: pair.leader.receive(1), lambda: pair.worker.receive(1)):
            try:
                call()
            except AssertionError as error:
                caught.append(error)

    thread = threading.Thread(target=intrude)
    thread.start()
    thread.join()

    assert len(caught) == 2
    assert pair.deliver(2) == [2]


@pytest.mark.parametrize("host", ["0.0.0.0", "10.1.2.3", "::", "example.org", "*", ""])
@pytest.mark.parametrize("kind", [LeaderSockets, WorkerSockets])
def test_only_loopback_is_bound(kind: type[LeaderSockets | WorkerSockets], host: str) -> None:
    """Any other host is refused with a hint, since there are no keys yet."""
    with pytest.raises(InvalidInput, match="has no keys yet") as raised:
        kind(host, on_dropped=pytest.fail)

    assert raised.value.hint == "Use 127.0.0.1, ::1 or localhost."


def test_close_does_not_wait_for_what_was_not_sent(pair: Pair) -> None:
    """With full pipes to a worker that reads nothing it takes well under a second."""
    frame = bytes(1_000_000)
    until(lambda: pair.leader.send(WORKER, envelope(1), frame))
    until(lambda: not pair.leader.send(WORKER, envelope(2), frame))
    begun_s = monotonic_s()
    pair.leader.close()

    assert monotonic_s() - begun_s < 1
