import os
import socket
from pathlib import Path

import pytest

from triton_ads.server.ports import HOST, PortTakenError, choose_ports, port_holder


@pytest.fixture
def taken():
    with socket.socket() as listener:
        listener.bind((HOST, 0))
        listener.listen()
        yield listener.getsockname()[1]


def test_zero_gives_free_ports_that_differ():
    ports = choose_ports({name: 0 for name in "abcd"})
    assert list(ports) == list("abcd")
    assert len(set(ports.values())) == 4
    choose_ports(ports)  # all of them are free again


def test_a_taken_port_is_named_with_its_purpose_and_its_holder(taken):
    name = Path("/proc/self/comm").read_text().strip()
    with pytest.raises(PortTakenError) as raised:
        choose_ports({"gRPC": 0, "HTTP": taken})
    assert str(raised.value) == f"port {taken}, wanted for HTTP, is in use by {name} (pid {os.getpid()})"


def test_a_port_taken_on_every_address_is_taken():
    with socket.socket() as listener:
        listener.bind(("0.0.0.0", 0))
        listener.listen()
        with pytest.raises(PortTakenError):
            choose_ports({"HTTP": listener.getsockname()[1]})


def test_a_port_asked_for_twice(taken):
    free = choose_ports({"a": 0})["a"]
    with pytest.raises(PortTakenError, match=f"port {free} is asked for twice, for HTTP and for metrics"):
        choose_ports({"HTTP": free, "metrics": free})


def test_a_port_that_a_closed_connection_still_holds_is_free():
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as Triton does
        listener.bind((HOST, 0))
        listener.listen()
        port = listener.getsockname()[1]
        with socket.create_connection((HOST, port)):
            accepted, _ = listener.accept()
            accepted.close()  # this side closes first: its end waits in TIME_WAIT
    assert choose_ports({"HTTP": port}) == {"HTTP": port}


def test_nobody_holds_a_free_port():
    assert port_holder(choose_ports({"a": 0})["a"]) is None
