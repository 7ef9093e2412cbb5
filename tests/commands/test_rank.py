"""`triton-ads rank` against the real server."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.support.tiny_release import ITEMS, USERS, write_tiny_release
from triton_ads.cli import main
from triton_ads.client import Ranking
from triton_ads.commands.rank import context_values, current_release, ranker, show
from triton_ads.export.repository import write_repository
from triton_ads.features.ids import MISSING, raw_id
from triton_ads.manifest import ManifestError
from triton_ads.recipe.names import LAYOUTS

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def ask(server, repository, capsys):
    """Runs the command; its exit status, output and errors."""

    def run(*arguments, protocol="grpc"):
        url = server.grpc_url if protocol == "grpc" else server.http_url
        command = ["rank", "--repository", str(repository), "--protocol", protocol, "--url", url, *arguments]
        status = main(command)
        shown = capsys.readouterr()
        return status, shown.out, shown.err

    return run


@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_the_json_is_what_the_client_gets(ask, grpc, protocol):
    arguments = ["--user", str(USERS[9]), "--candidates", "40", "--top", "4", "--tier", "high", "--json"]
    status, out, err = ask(*arguments, "--context", "daypart=morning", "--context", "bid=0.5", protocol=protocol)
    answer = json.loads(out)
    candidates = np.random.default_rng(0).choice(np.array(ITEMS), 40, replace=False)
    expected = grpc.rank(
        candidates, user_id=USERS[9], tier="high", context_features=[raw_id("morning")], context_dense=[0.5]
    )
    assert (status, err) == (0, "")
    assert [row["id"] for row in answer["ranked"]] == expected.ids[:4].tolist()
    assert [row["title"] for row in answer["ranked"]] == [f"Ad {i}" for i in expected.ids[:4]]
    assert [row["rank_value"] for row in answer["ranked"]] == pytest.approx(expected.rank_values[:4], abs=2e-6)
    for row, scores in zip(answer["ranked"], expected.scores, strict=False):
        assert row["scores"] == {"cvr": pytest.approx(scores[0], abs=2e-6), "dcvr": pytest.approx(scores[1], abs=2e-6)}
    assert (answer["tier"], answer["reason"], answer["candidates"]) == ("high", "insisted", 40)
    assert answer["release"] == expected.release
    assert answer["milliseconds"] > 0


def test_the_table_shows_titles_scores_tier_time_and_release(ask, grpc):
    status, out, _ = ask("--user", str(USERS[9]), "--candidates", "30", "--top", "3", "--tier", "standard")
    assert status == 0
    assert f"user {USERS[9]}, 30 candidates" in out
    assert out.count("Ad 10") == 3
    assert "cvr" in out
    assert "dcvr" in out
    assert "tier standard (insisted)" in out
    assert f"release {grpc.rank([]).release}" in out


def test_what_an_expression_orders_by_is_shown(capsys):
    scores, values = np.array([[0.25], [0.5]], np.float32), np.array([1.5, 0.125], np.float32)
    ranking = Ranking(
        np.array([7, 5]), scores, values, np.array([1, 0], np.int32), "standard", "default", "0123456789ab", ("cvr",)
    )
    show(ranking, {}, 2, "user 1", 3.0, "bid * cvr")
    rows = [line.strip("│ ").split("│") for line in capsys.readouterr().out.splitlines() if "│" in line]
    assert [[cell.strip() for cell in row] for row in rows] == [
        ["1", "7", "", "0.2500", "1.5"],
        ["2", "5", "", "0.5000", "0.125"],
    ]
    show(ranking, {}, 2, "user 1", 3.0)
    assert "value" not in capsys.readouterr().out


def test_more_candidates_than_there_are_ads(ask):
    status, out, err = ask("--candidates", "5000", "--json", "--top", "5000")
    assert (status, err) == (0, f"the release knows {len(ITEMS)} ads; all of them are ranked\n")
    assert sorted(row["id"] for row in json.loads(out)["ranked"]) == list(ITEMS)


def test_a_user_whom_the_release_does_not_know_is_told(ask, capsys):
    status, out, err = ask("--user", "99999", "--candidates", "5", "--json")
    assert (status, err) == (0, "user 99999 is not known to the release: ranked as a cold start\n")
    assert len(json.loads(out)["ranked"]) == 5
    with pytest.raises(SystemExit):
        ask("--user", "")
    assert "argument --user: '' found, an id allowed" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("protocol", "told"), [("grpc", "does not speak gRPC, whose port"), ("http", "does not speak HTTP, whose port")]
)
def test_another_protocol_than_that_of_the_port_is_told(server, repository, capsys, protocol, told):
    url = server.http_url if protocol == "grpc" else server.grpc_url
    options = ["--repository", str(repository), "--candidates", "5", "--protocol", protocol]
    assert main(["rank", *options, "--url", url]) == 1
    err = capsys.readouterr().err
    assert f"Something listens at {url} that {told}" in err
    assert "Start a server" not in err
    assert f"--protocol {'http' if protocol == 'grpc' else 'grpc'}" in err


def test_what_the_server_refuses_is_shown(ask):
    status, out, err = ask("--tier", "gold", "--candidates", "5")
    assert (status, out) == (1, "")
    assert "insisted_tier: 'gold' found, standard, high or empty allowed" in err


@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_without_a_server_it_says_how_to_start_one(repository, capsys, protocol):
    command = [
        "rank",
        "--repository",
        str(repository),
        "--protocol",
        protocol,
        "--url",
        "127.0.0.1:9",
        "--candidates",
        "5",
    ]
    assert main(command) == 1
    shown = capsys.readouterr()
    assert "no server answers" in shown.err
    assert "127.0.0.1:9" in shown.err
    assert "triton-ads serve" in shown.err


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--top", "-1", "argument --top: '-1' found, a whole number, 0 or more, allowed"),
        ("--candidates", "-5", "argument --candidates: '-5' found, a whole number, 0 or more, allowed"),
        ("--candidates", "many", "argument --candidates: 'many' found"),
        ("--seed", "-1", "argument --seed: '-1' found"),
    ],
)
def test_a_number_below_0_names_the_option(capsys, option, value, message):
    with pytest.raises(SystemExit) as raised:
        main(["rank", option, value])
    assert raised.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--user", "99999999999999999999999"], "id 99999999999999999999999 found, an int64 allowed"),
        (["--user", str(2**63)], f"id {2**63} found, an int64 allowed"),
        (["--context", f"daypart={10**20 - 1}"], f"id {10**20 - 1} found, an int64 allowed"),
        (["--deadline-ms", "inf"], "deadline_ms: inf found, above 0 and at most 86400000 allowed"),
        (["--deadline-ms", "1e300"], "deadline_ms: 1e+300 found"),
        (["--deadline-ms", "nan"], "deadline_ms: nan found"),
    ],
)
def test_a_value_out_of_range_is_told_in_one_line(ask, options, message):
    status, out, err = ask("--candidates", "5", *options)
    assert (status, out) == (1, "")
    assert err.startswith(f"triton-ads rank: {message}")
    assert err.count("\n") == 1


@pytest.mark.parametrize("url", ["127.0.0.1:abc", "http://127.0.0.1:8000"])
@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_a_wrong_address_is_told_in_one_line(repository, capsys, url, protocol):
    options = ["--repository", str(repository), "--candidates", "5", "--protocol", protocol]
    assert main(["rank", *options, "--url", url]) == 1
    assert capsys.readouterr().err == (
        f"triton-ads rank: url: '{url}' found, host:port allowed, port 1 to 65535 and no http://, as 127.0.0.1:8001\n"
    )


@pytest.mark.parametrize(
    ("file", "data"),
    [
        ("store/items/ids.npy", b""),
        ("store/items/ids.npy", b"\x93NUMPY"),
        ("store/items/rows.npy", b""),
        ("store/titles.json", b"{"),
        ("store/titles.json", b"\xff"),
        ("store/titles.json", b"[]"),
        ("manifest.json", b""),
    ],
)
def test_a_damaged_release_names_the_file(recipe, tmp_path, capsys, file, data):
    release = write_tiny_release(tmp_path / "release", recipe)
    write_repository(release, tmp_path / "repository")
    (release / file).write_bytes(data)
    assert main(["rank", "--repository", str(tmp_path / "repository")]) == 1
    assert f"{file}: " in capsys.readouterr().err


def test_without_a_repository_it_says_how_to_make_one(tmp_path, capsys):
    assert main(["rank", "--repository", str(tmp_path / "none")]) == 1
    assert "triton-ads build" in capsys.readouterr().err


def test_the_newest_version_gives_the_release(repository, tmp_path):
    release = current_release(repository)
    assert (release / "manifest.json").is_file()
    for version, name in (("2", "old"), ("10", "new")):
        (tmp_path / name).mkdir()
        (tmp_path / "repository" / "rank" / version).mkdir(parents=True)
        (tmp_path / "repository" / "rank" / version / "release").symlink_to(f"../../../{name}")
    assert current_release(tmp_path / "repository") == (tmp_path / "new").resolve()
    with pytest.raises(ManifestError, match="triton-ads build"):
        current_release(tmp_path / "new")


def test_one_of_several_recipes_is_named(tmp_path):
    def served(prefix, layout):
        (tmp_path / f"{prefix}rank").mkdir()
        for model in LAYOUTS[layout]:
            version = tmp_path / f"{prefix}{model}" / "1"
            version.mkdir(parents=True)
            (version / "release").symlink_to("nowhere")

    served("b_", "ensemble")
    (tmp_path / "half_rank").mkdir()
    (tmp_path / "half_router").mkdir()
    (tmp_path / "page_rank").mkdir()  # somebody else's
    assert ranker(tmp_path) == ranker(tmp_path, "b_rank") == "b_rank"
    with pytest.raises(ManifestError, match=r"no model 'page_rank' found; allowed: b_rank$"):
        ranker(tmp_path, "page_rank")
    served("a_", "single")
    with pytest.raises(ManifestError, match=r"several recipes found, name one with --model: a_rank, b_rank$"):
        ranker(tmp_path)
    served("", "single")
    assert (ranker(tmp_path), ranker(tmp_path, "a_rank")) == ("rank", "a_rank")


def test_context_pairs_become_columns(recipe):
    assert context_values(recipe, []) == (None, None)
    ids, dense = context_values(recipe, ["daypart=morning"])
    assert (ids.tolist(), dense.tolist()) == ([raw_id("morning")], [0.0])
    ids, dense = context_values(recipe, ["bid=0.25"])
    assert (ids.tolist(), dense.tolist()) == ([MISSING], [0.25])
    assert context_values(recipe, ["daypart=7"])[0].tolist() == [7]
    for wrong in ("daypart", "segment=new", "=1"):
        with pytest.raises(ValueError, match="a name of daypart, bid is allowed"):
            context_values(recipe, [wrong])
    without = recipe.model_copy(update={"features": tuple(f for f in recipe.features if f.side != "context")})
    with pytest.raises(ValueError, match=r"^--context daypart=1: this recipe has no context features$"):
        context_values(without, ["daypart=1"])
    with pytest.raises(ValueError, match="could not convert"):
        context_values(recipe, ["bid=high"])


@pytest.mark.parametrize(("example", "protocol"), [("rank_grpc.py", "grpc"), ("rank_http.py", "http")])
def test_the_examples_run_as_they_stand(server, example, protocol):
    url = server.grpc_url if protocol == "grpc" else server.http_url
    done = subprocess.run(
        [sys.executable, ROOT / "clients" / example, url], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "tier standard" in done.stdout
