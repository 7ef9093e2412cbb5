"""item_scorer: scores all candidates of all requests of a batch. See triton_ads/serving/scorer_model.py."""

from triton_ads.serving.scorer_model import ScorerModel as TritonPythonModel

__all__ = ["TritonPythonModel"]
