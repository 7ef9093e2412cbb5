"""rank: looks the user up, chooses the tier, scores and ranks the candidates. See triton_ads/serving/rank_model.py."""

from triton_ads.serving.rank_model import RankModel as TritonPythonModel

__all__ = ["TritonPythonModel"]
