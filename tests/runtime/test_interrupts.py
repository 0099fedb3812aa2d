"""A signal is noted first, and interrupts at once when it comes again."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from starlings.system.interrupts import DeferredInterrupt


@pytest.fixture(autouse=True)
def default_handler():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def interrupt():
    os.kill(os.getpid(), signal.SIGINT)


def test_the_first_signal_is_heeded_where_it_is_asked_for():
    with DeferredInterrupt() as interrupts:
        interrupts.raise_if_pending()
        interrupt()
        with pytest.raises(KeyboardInterrupt):
            interrupts.raise_if_pending()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_the_second_signal_is_an_interrupt():
    with DeferredInterrupt():
        interrupt()
        with pytest.raises(KeyboardInterrupt):
            interrupt()


def test_one_context_within_another_is_the_same():
    with DeferredInterrupt() as outer:
        with DeferredInterrupt() as inner:
            interrupt()
            assert inner is outer
        with pytest.raises(KeyboardInterrupt):
            outer.raise_if_pending()
    with DeferredInterrupt() as later:
        later.raise_if_pending()


def test_the_handler_of_others_and_other_threads_are_left_alone():
    heard = []
    signal.signal(signal.SIGINT, lambda *_: heard.append(1))
    with DeferredInterrupt() as interrupts:
        interrupt()
        interrupts.raise_if_pending()
    assert heard == [1]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    found = []

    def elsewhere():
        with DeferredInterrupt() as interrupts:
            found.append(interrupts.handles)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert found == [False]
