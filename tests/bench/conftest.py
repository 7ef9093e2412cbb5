"""What benchmarks of the service share: one build of a small recipe with random weights."""

import pytest

from tests.support.trained_build import write_build
from triton_ads.pipeline.layout import Layout


@pytest.fixture(scope="session")
def layout(tmp_path_factory: pytest.TempPathFactory) -> Layout:
    """Read only."""
    return write_build(tmp_path_factory.mktemp("serving") / "var")
