"""What a model of the ranking path loads into its process."""

import subprocess
import sys

import pytest

HEAVY = ("torch", "onnx", "tritonclient", "triton_ads.models", "triton_ads.training", "triton_ads.export")


@pytest.mark.parametrize("module", ["rank_model", "router_model", "encoder_model", "scorer_model"])
def test_a_model_of_the_ranking_path_is_light(module):
    code = f"import sys, triton_ads.serving.{module}; print(*(m for m in {HEAVY} if m in sys.modules))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == []
