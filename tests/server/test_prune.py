import os

from triton_ads.server.prune import prune_releases


def releases(folder, *names):
    """Made in this order."""
    for i, name in enumerate(names):
        (folder / name).mkdir()
        (folder / name / "manifest.json").touch()
        os.utime(folder / name / "manifest.json", (i, i))


def test_the_newest_and_the_protected_stay_and_nothing_else_is_touched(tmp_path):
    names = [f"mine-{i:012x}" for i in range(6)]
    others = ("mine-more-000000000000", "other-000000000000", "mine-short", ".staging-mine")
    releases(tmp_path, *others, *names)
    (tmp_path / "mine-0000000000ff").mkdir()  # without a manifest: none that the build finished
    (tmp_path / "link").symlink_to(names[1])
    assert prune_releases(tmp_path, "mine", 2, [tmp_path / "link"]) == [names[0], *names[2:4]]
    assert {p.name for p in tmp_path.iterdir()} == {*others, names[1], *names[4:], "mine-0000000000ff", "link"}
    assert prune_releases(tmp_path, "mine", 2, [tmp_path / "link"]) == []
