"""Who may import whom (pyproject.toml), and what the real server's processes have loaded."""

from pathlib import Path

import pytest
from importlinter.cli import lint_imports

from triton_ads.client import RankClient
from triton_ads.server import TritonServer

ROOT = Path(__file__).parents[1]


def test_the_import_rules_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    assert lint_imports(config_filename=str(ROOT / "pyproject.toml"), no_cache=True) == 0


@pytest.mark.parametrize(
    ("layout", "models"), [("server", {"rank"}), ("ensemble_server", {"router", "user_encoder", "item_scorer"})]
)
@pytest.mark.server
def test_models_that_answered_have_loaded_no_pytorch(
    request: pytest.FixtureRequest, layout: str, models: set[str]
) -> None:
    server: TritonServer = request.getfixturevalue(layout)
    with RankClient(server.grpc_url, timeout_s=30) as client:
        assert len(client.rank([1, 2, 3], user_id=1)) == 3
    stubs = server.process.stubs()
    assert {stub.model for stub in stubs} == models
    for stub in stubs:
        maps = Path(f"/proc/{stub.pid}/maps").read_text()
        assert "libtorch" not in maps, stub.model
        # The router scores nothing; that the others show their engine proves that the look was at the right place.
        assert ("onnxruntime" in maps) == (stub.model != "router"), stub.model
