"""A disk with no space left: build and publish say so, and what is served stays whole."""

import shutil
import subprocess
from contextlib import contextmanager

import pytest

from tests.drills.traffic import questions_alone
from tests.support.next_release import write_releases
from tests.support.tiny_release import tiny_recipe
from triton_ads.export.release import write_release
from triton_ads.export.repository import write_repository
from triton_ads.manifest import Manifest
from triton_ads.server import TritonServer
from triton_ads.server.publish import Publisher, PublishLimits
from triton_ads.server.release_checks import PublishError

pytestmark = pytest.mark.server


@pytest.fixture
def disk(tmp_path):
    """A small file system of its own."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", folder], capture_output=True, text=True)
    if mounted.returncode:
        pytest.skip(f"a file system of its own may not be mounted here: {mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)


@contextmanager
def filled(disk):
    """No byte is free."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file, pytest.raises(OSError, match="No space left"):
        while True:
            file.write(bytes(4096))
    yield
    filler.unlink()


def files(folder):
    found = (path for path in folder.rglob("*") if "__pycache__" not in path.parts and path.name != ".publishing")
    return {str(path.relative_to(folder)): path.is_file() and path.read_bytes() for path in found}


def test_publishing_is_refused_and_the_old_release_serves(disk, report):
    first, second = write_releases(disk / "releases", tiny_recipe(), 2)
    write_repository(first, disk / "repository")
    with TritonServer(disk / "repository") as server:
        publisher = Publisher(disk / "repository", server.http_url, limits=PublishLimits(watch_s=0, quiet_s=0.2))
        before = files(disk / "repository")
        with filled(disk), pytest.raises(PublishError, match="No space left") as refused:
            publisher.publish(second)
        assert files(disk / "repository") == before
        assert set(questions_alone(server)) == {Manifest.load(first).release}
        publisher.publish(second)  # when there is space again
        assert set(questions_alone(server)) == {Manifest.load(second).release}
    report("full disk", f"publish: {str(refused.value)[:110]}")


def test_a_build_leaves_neither_half_a_release_nor_half_a_repository(disk, tmp_path):
    recipe = tiny_recipe()
    (built,) = write_releases(tmp_path / "built", recipe, 1)
    (served,) = write_releases(disk / "releases", tiny_recipe(tile=16), 1)
    write_repository(served, disk / "repository")
    before = files(disk)
    tiers = {name: (built / "tiers" / name, tier) for name, tier in Manifest.load(built).tiers.items()}
    with filled(disk):
        with pytest.raises(OSError, match="No space left"):
            write_release(recipe, built, tiers, disk / "releases")
        with pytest.raises(OSError, match="No space left"):
            write_repository(built, disk / "repository")
    assert files(disk) == before
    shutil.rmtree(served)  # its recipe was another
    assert write_release(recipe, built, tiers, disk / "releases").name == built.name
