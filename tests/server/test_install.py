import importlib.metadata
import os
import sys
from pathlib import Path

import pytest

from triton_ads.server import install
from triton_ads.server.install import ServerInstallError, find_server


def test_the_wheel_is_found_and_laid_out_again_and_again(tmp_path):
    found = find_server()
    for _ in range(2):
        backends = found.lay_out(tmp_path)
    names = {p.name for p in (backends / "python").iterdir()}
    assert {"libtriton_python.so", "triton_python_backend_utils.py", "triton_python_backend_stub"} <= names
    stub = (backends / "python" / "triton_python_backend_stub").resolve()
    assert stub.parent.name == f"{sys.version_info.major}.{sys.version_info.minor}"
    assert os.access(stub, os.X_OK)


def test_the_environment_puts_this_python_and_the_wheels_libraries_first(tmp_path):
    found = find_server()
    environment = found.environment(tmp_path)
    assert environment["PATH"].split(":")[0] == str(Path(sys.executable).parent)
    assert environment["LD_LIBRARY_PATH"].split(":")[0] == str(found.libraries)


@pytest.mark.parametrize(
    ("system", "machine", "libc", "message"),
    [
        ("darwin", "arm64", ("", ""), "this is darwin arm64 without glibc"),
        ("linux", "aarch64", ("glibc", "2.36"), "this is linux aarch64 glibc"),
        ("linux", "x86_64", ("", ""), "without glibc"),
        ("linux", "x86_64", ("glibc", "2.31"), "needs glibc 2.35 or later, this machine has 2.31"),
    ],
)
def test_other_platforms_are_refused_with_what_was_found(system, machine, libc, message):
    with pytest.raises(ServerInstallError, match=message) as raised:
        install._check_platform(system, machine, libc)
    assert "Docker" in str(raised.value)


@pytest.mark.parametrize("version", ["2.35", "2.36", "2.40", "3.0"])
def test_glibc_from_2_35_will_do(version):
    install._check_platform("linux", "x86_64", ("glibc", version))


def test_a_missing_wheel_says_how_to_get_it(monkeypatch):
    monkeypatch.setattr(install, "WHEEL", "no-such-package-at-all")
    with pytest.raises(ServerInstallError, match=r"no-such-package-at-all.*is not installed.*pip install"):
        find_server()


def test_a_python_without_a_stub_says_which_have_one(monkeypatch):
    class Version(tuple):
        major, minor = 3, 7

    monkeypatch.setattr(install.sys, "version_info", Version((3, 7, 0)))
    with pytest.raises(ServerInstallError, match=r"no Python backend stub for Python 3\.7; it has: .*3\.11"):
        find_server()


def test_a_missing_libpython_says_which_package_brings_it():
    with pytest.raises(ServerInstallError, match=r"needs libpython3\.99\.so\.1\.0.*libpython3\.99"):
        install._libpython("libpython3.99.so.1.0")


def test_a_damaged_wheel_names_the_missing_file(monkeypatch, tmp_path):
    class Empty:
        version = "0.7.0"

        def locate_file(self, _name):
            return tmp_path

    stub = tmp_path / "pytriton/tritonserver/python_backend_stubs" / f"3.{sys.version_info.minor}"
    stub.mkdir(parents=True)
    (stub / "triton_python_backend_stub").touch()
    monkeypatch.setattr(importlib.metadata, "distribution", lambda _name: Empty())
    with pytest.raises(ServerInstallError, match=r"damaged.*bin/tritonserver is missing"):
        find_server()
